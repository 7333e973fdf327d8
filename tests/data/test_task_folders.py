import re
from pathlib import Path

import numpy as np
import pytest

from gradcast.data.task_folders import find_tasks, natural
from tests.data.hostile import refusal
from tests.data.images import fill, zipped


def test_numbers_in_names_count_as_numbers(tmp_path: Path) -> None:
    for name in ("task10", "task2", "Task1", "task2b", "2024-11", "2024-2"):
        fill(tmp_path / name / "cat", 1)
    names = [place.name for place in find_tasks([tmp_path], listed=False)]
    assert names == ["2024-2", "2024-11", "Task1", "task2", "task2b", "task10"]
    assert sorted(["b1", "B10", "a", "b2", ""], key=natural) == ["", "a", "b1", "b2", "B10"]


def test_folders_archives_and_npz_files_are_tasks_and_other_files_are_named(tmp_path: Path) -> None:
    fill(tmp_path / "a" / "cat", 1)
    fill(tmp_path / "outside" / "b" / "cat", 1)
    zipped(tmp_path / "outside" / "b", tmp_path / "b.zip")
    np.savez(tmp_path / "c.npz", x_train=np.zeros(1))
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "notes.txt").touch()
    fill(tmp_path, 1)
    for path in sorted((tmp_path / "outside").rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    (tmp_path / "outside").rmdir()
    with pytest.warns(UserWarning, match=rf"left out of {tmp_path}, being no task: 000.png, notes.txt$"):
        places = find_tasks([tmp_path], listed=False)
    assert [(place.name, place.npz) for place in places] == [("a", False), ("b", False), ("c", True)]


def test_a_list_keeps_its_order(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("b", "a", "c.d")]
    for path in paths:
        fill(path / "cat", 1)
    assert [place.name for place in find_tasks(paths, listed=True)] == ["b", "a", "c.d"]


def test_a_task_may_be_called_train_and_two_splits_are_no_tasks(tmp_path: Path) -> None:
    for name in ("bus", "train"):
        fill(tmp_path / name / "cat", 1)
    assert [place.name for place in find_tasks([tmp_path], listed=False)] == ["bus", "train"]
    fill(tmp_path / "val" / "cat", 1)
    message = f"{tmp_path} has the folder 'train' where its tasks should be; lay it out as TASK/CLASS"
    assert message in refusal(find_tasks, [tmp_path], listed=False)


def test_two_tasks_of_one_name_are_refused(tmp_path: Path) -> None:
    fill(tmp_path / "a" / "cat", 1)
    np.savez(tmp_path / "a.npz", x_train=np.zeros(1))
    assert f"2 tasks of {tmp_path} are called 'a'; rename" in refusal(find_tasks, [tmp_path], listed=False)
    assert "2 tasks of stream.path are called 'a'" in refusal(find_tasks, [tmp_path / "a"] * 2, listed=True)


def test_a_file_is_no_folder_of_tasks(tmp_path: Path) -> None:
    (tmp_path / "one.npz").touch()
    assert re.search(
        "one.npz is no folder; set stream.path to", refusal(find_tasks, [tmp_path / "one.npz"], listed=False)
    )
