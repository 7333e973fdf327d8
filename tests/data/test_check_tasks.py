from pathlib import Path

import numpy as np

from gradcast.data.cache import Cache
from gradcast.data.check import Findings
from gradcast.data.check_tasks import check_tasks
from gradcast.data.load import Shelf, untracked
from tests.data.images import fill


def found(root: Path) -> Findings:
    return check_tasks(root, Shelf(root, Cache(root.parent / "cache"), untracked))


def test_tasks_with_what_is_new_and_what_returns(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    for place, count in (("1/cat", 5), ("1/dog", 10), ("2/cat", 2), ("2/bird", 5)):
        fill(root / place, count)
    y = np.array(["dog", "fish"])
    np.savez(root / "3.npz", x_train=np.zeros((2, 4, 4)), y_train=y, x_test=np.zeros((2, 4, 4)), y_test=y)
    findings = found(root)
    assert findings.facts == [
        f"found at {root}",
        "3 tasks, 4 classes",
        "task '1': 12 images to train and 3 to test on; new: cat, dog",
        "task '2': 5 images to train and 2 to test on; new: bird; again: cat",
        "task '3': 2 images to train and 2 to test on; new: fish; again: dog",
    ]
    assert (findings.notes, findings.verdict) == ([], "ok")


def test_every_problem_names_its_task(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    (broken, *_) = fill(root / "1" / "cat", 5)
    broken.write_text("no image")
    (root / "1" / "dog").mkdir()
    (root / "2").mkdir()
    fill(root / "3" / "cat", 1)
    np.savez(root / "4.npz", x_train=np.zeros((2, 4, 4)))
    findings = found(root)
    assert findings.notes == ["task '1': left out: 1 class folders without an image (dog)"]
    assert len(findings.unreadable) == 1
    assert findings.unreadable[0].startswith(f"task '1': {broken} cannot be read: ")
    assert [problem.split(";")[0] for problem in findings.problems] == [
        f"task '2': {root / '2'} has no folders of images",
        f"task '3': class 'cat' of {root / '3'} has a single image, too few to train and to test on",
        f"task '4': {root / '4.npz'} has no array 'y_train'",
    ]
    assert findings.verdict == "has problems"


def test_one_task_is_a_problem(tmp_path: Path) -> None:
    fill(tmp_path / "photos" / "1" / "cat", 3)
    assert found(tmp_path / "photos").problems == ["1 task, and a stream of tasks needs two or more"]
