import errno
import os
import re
import shutil
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from gradcast.errors import GradcastError
from gradcast.runs.safe_files import (
    WRITING,
    locked,
    make_folder,
    open_file,
    refuse_links,
    sweep,
    write_tensors,
    write_text,
)


def test_files_are_replaced_as_a_whole(tmp_path: Path) -> None:
    write_text(tmp_path / "a", "one")
    write_text(tmp_path / "a", "two")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_text() == "two"


def test_a_full_disk_is_named_and_keeps_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    write_text(tmp_path / "a", "one")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=re.escape(f"No space left on device: '{tmp_path / 'a'}'")):
        write_text(tmp_path / "a", "two")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_text() == "one"


def test_tensors_are_readable_like_other_files_and_leave_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / WRITING).mkdir()
    (tmp_path / WRITING / ".tmpAbc").write_text("of a process that was killed")
    write_text(tmp_path / "text", "x")
    write_tensors(tmp_path / "tensors", {"w": torch.ones(2)}, {"said": "yes"})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tensors", "text"]
    assert (tmp_path / "tensors").stat().st_mode == (tmp_path / "text").stat().st_mode
    assert torch.equal(load_file(tmp_path / "tensors")["w"], torch.ones(2))
    with safe_open(tmp_path / "tensors", framework="pt") as file:
        assert file.metadata() == {"said": "yes"}


def test_a_link_is_replaced_and_what_it_points_to_stays(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_text("mine")
    (tmp_path / "a").symlink_to(mine)
    (tmp_path / "b").symlink_to(mine)
    write_text(tmp_path / "a", "one")
    write_tensors(tmp_path / "b", {"w": torch.ones(2)})
    assert mine.read_text() == "mine"
    assert not (tmp_path / "a").is_symlink()
    assert not (tmp_path / "b").is_symlink()


def test_nothing_is_opened_or_made_through_a_link(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "file").write_text("mine")
    (tmp_path / "file").symlink_to(mine / "file")
    (tmp_path / "folder").symlink_to(mine)
    with pytest.raises(GradcastError, match=r"file is a symbolic link, and nothing is written or deleted through one"):
        open_file(tmp_path / "file", os.O_WRONLY | os.O_TRUNC)
    with pytest.raises(GradcastError, match=r"file is a symbolic link"), locked(tmp_path / "file"):
        pass
    with pytest.raises(GradcastError, match=r"folder is a symbolic link"):
        make_folder(tmp_path / "folder")
    with pytest.raises(GradcastError, match=r"folder is a symbolic link"):
        refuse_links(tmp_path / "folder")
    assert (mine / "file").read_text() == "mine"


def test_links_are_found_at_any_depth_but_not_where_another_program_makes_them(tmp_path: Path) -> None:
    deep = tmp_path / "run" / "row" / "seed-0"
    deep.mkdir(parents=True)
    foreign = tmp_path / "run" / "wandb"
    foreign.mkdir()
    (foreign / "latest-run").symlink_to(tmp_path)
    refuse_links(tmp_path / "run")
    (deep / "x").symlink_to("/nowhere")
    with pytest.raises(GradcastError, match=r"seed-0/x is a symbolic link"):
        refuse_links(tmp_path / "run")
    shutil.rmtree(deep)
    deep.symlink_to(foreign)
    with pytest.raises(GradcastError, match=r"seed-0 is a symbolic link"):
        refuse_links(tmp_path / "run")


def test_sweeping_takes_what_is_half_written_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "row" / WRITING).mkdir(parents=True)
    for name in ("a.json.17.tmp", "mine.tmp", "page.html.4.tmp", "row/b.99.tmp", f"row/{WRITING}/c"):
        (tmp_path / name).touch()
    sweep(tmp_path, kept=("page.html",))
    found = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*"))
    assert found == ["mine.tmp", "page.html.4.tmp", "row"]
