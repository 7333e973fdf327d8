import os
import zipfile
from pathlib import Path

import pytest

from gradcast.data import scan
from gradcast.data.scan import (
    BROKEN,
    HIDDEN,
    LOOP,
    NO_ENDING,
    OTHER,
    REPEATED,
    SPECIAL,
    UNOPENED,
    image_files,
    maybe_pictures,
)
from gradcast.errors import GradcastError
from tests.data.images import fill, picture, zipped


def test_links_to_folders_are_followed_and_circles_are_not(tmp_path: Path) -> None:
    fill(tmp_path / "elsewhere", 2)
    fill(tmp_path / "root" / "b", 1)
    (tmp_path / "root" / "a").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "root" / "b" / "up").symlink_to(tmp_path / "root")
    (tmp_path / "root" / "lost.png").symlink_to(tmp_path / "nowhere.png")
    found = image_files(tmp_path / "root")
    assert found.names == ("a/000.png", "a/001.png", "b/000.png")
    assert found.left_out == {LOOP: ["b/up"], BROKEN: ["lost.png"]}


def test_pipes_and_devices_are_not_opened(tmp_path: Path) -> None:
    fill(tmp_path, 1)
    os.mkfifo(tmp_path / "a.png")
    (tmp_path / "b.png").symlink_to("/dev/zero")
    found = image_files(tmp_path)
    assert (found.names, found.left_out) == (("000.png",), {SPECIAL: ["a.png", "b.png"]})


def test_hidden_folders_and_other_formats_are_left_out_and_named(tmp_path: Path) -> None:
    fill(tmp_path / "cat", 1)
    for hidden in (".ipynb_checkpoints", ".thumbnails", "@eaDir", "cat/.cache"):
        fill(tmp_path / hidden, 1)
    for name in ("cat/._000.png", "cat/a.avif", "cat/b.HEIC", "cat/c.jp2", "cat/raw", "cat/notes.txt", "cat/README"):
        (tmp_path / name).write_bytes(b"x")
    found = image_files(tmp_path)
    assert found.names == ("cat/000.png",)
    hidden = found.left_out[HIDDEN]
    assert sorted(hidden) == [".ipynb_checkpoints", ".thumbnails", "@eaDir", "cat/._000.png", "cat/.cache"]
    rest = {reason: names for reason, names in found.left_out.items() if reason != HIDDEN}
    assert rest == {
        ".avif": ["cat/a.avif"],
        ".heic": ["cat/b.HEIC"],
        ".jp2": ["cat/c.jp2"],
        NO_ENDING: ["cat/raw"],
        OTHER: ["cat/README", "cat/notes.txt"],
    }
    assert OTHER not in maybe_pictures(found.left_out)
    assert image_files(zipped(tmp_path / "cat", tmp_path / "cat.zip")).names == ("cat/000.png",)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may open every folder")
def test_folders_that_cannot_be_opened_are_named(tmp_path: Path) -> None:
    fill(tmp_path / "cat", 1)
    fill(tmp_path / "dog", 1)
    (tmp_path / "dog").chmod(0)
    try:
        assert image_files(tmp_path).left_out == {UNOPENED: ["dog"]}
        with pytest.raises(GradcastError, match=r"dog cannot be read \(.*Permission denied"):
            image_files(tmp_path / "dog")
    finally:
        (tmp_path / "dog").chmod(0o755)


def test_a_folder_that_the_system_refuses_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path / "cat", 1)
    fill(tmp_path / "dog", 1)
    listed = os.scandir

    def refuse(folder: str) -> object:
        if str(folder).endswith("dog"):
            raise PermissionError(13, "Permission denied")
        return listed(folder)

    monkeypatch.setattr(os, "scandir", refuse)
    found = image_files(tmp_path)
    assert (found.names, found.left_out) == (("cat/000.png",), {UNOPENED: ["dog"]})


def test_a_tree_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, 6)
    monkeypatch.setattr(scan, "MOST_FILES", 5)
    with pytest.raises(GradcastError, match="holds more than 5 files"):
        image_files(tmp_path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_of_two_entries_of_one_name_the_last_counts(tmp_path: Path) -> None:
    paths = fill(tmp_path / "a", 2)
    with zipfile.ZipFile(tmp_path / "twice.zip", "w") as archive:
        for path in paths:
            archive.writestr("x.png", path.read_bytes())
    found = image_files(tmp_path / "twice.zip")
    assert (found.names, found.left_out) == (("x.png",), {REPEATED: ["x.png"]})


def test_names_come_in_the_order_of_their_folders(tmp_path: Path) -> None:
    for folder in ("a", "a-b", "a.b"):
        fill(tmp_path / folder, 1)
    picture(0).save(tmp_path / "aa.png")
    assert image_files(tmp_path).names == ("a/000.png", "a-b/000.png", "a.b/000.png", "aa.png")
