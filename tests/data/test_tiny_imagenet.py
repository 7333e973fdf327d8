from pathlib import Path

import pytest

from gradcast.data import limits, scan
from gradcast.data import tiny_imagenet as module
from gradcast.data.tiny_imagenet import find_tiny_imagenet
from gradcast.data.tiny_imagenet import tiny_imagenet as read
from gradcast.data.tiny_imagenet import tiny_imagenet_train as train_files
from gradcast.errors import GradcastError
from tests.data.images import tiny_imagenet, zipped


@pytest.mark.parametrize("as_zip", [False, True])
def test_train_and_val_with_their_labels(tmp_path: Path, as_zip: bool) -> None:
    base = tiny_imagenet(tmp_path)
    root = zipped(base, tmp_path / "tiny-imagenet-200.zip") if as_zip else base
    found = read(root)
    assert found.classes == ("n00000000", "n00000001", "n00000002")
    assert (len(found.train), len(found.test)) == (12, 6)
    assert found.train_y == [0] * 4 + [1] * 4 + [2] * 4
    by_name = {name.rpartition("/")[2]: label for name, label in zip(found.test.names, found.test_y, strict=True)}
    assert by_name == {f"{1000 + 10 * c + i:03d}.JPEG": c for c in range(3) for i in range(2)}


@pytest.mark.parametrize("as_zip", [False, True])
def test_a_byte_order_mark_before_the_labels_loses_no_image(tmp_path: Path, as_zip: bool) -> None:
    base = tiny_imagenet(tmp_path)
    labels = base / "val" / "val_annotations.txt"
    labels.write_bytes(b"\xef\xbb\xbf" + labels.read_bytes())
    assert len(read(zipped(base, tmp_path / "tiny-imagenet-200.zip") if as_zip else base).test) == 6


def test_links_to_class_folders_count(tmp_path: Path) -> None:
    base = tiny_imagenet(tmp_path)
    (base / "train" / "n00000001").rename(tmp_path / "elsewhere")
    (base / "train" / "n00000001").symlink_to(tmp_path / "elsewhere")
    found = read(base)
    assert (len(found.classes), len(found.train)) == (3, 12)


def test_the_tree_is_looked_through_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base, calls = tiny_imagenet(tmp_path), list[Path]()

    def counted(root: Path) -> object:
        calls.append(root)
        return scan.image_files(root)

    monkeypatch.setattr(module, "image_files", counted)
    read(base)
    assert calls == [base]


@pytest.mark.parametrize("as_zip", [False, True])
def test_labels_that_are_too_long_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_zip: bool) -> None:
    base = tiny_imagenet(tmp_path)
    root = zipped(base, tmp_path / "tiny-imagenet-200.zip") if as_zip else base
    monkeypatch.setattr(module, "LARGEST_LIST", 20)
    monkeypatch.setattr(limits, "LARGEST_LIST", 20)
    with pytest.raises(GradcastError, match=r"val_annotations\.txt .*(at most|more than)"):
        read(root)


def test_the_folder_wins_over_the_archive(tmp_path: Path) -> None:
    assert find_tiny_imagenet(tmp_path) is None
    (tmp_path / "tiny-imagenet-200.zip").write_bytes(b"")
    assert find_tiny_imagenet(tmp_path) == tmp_path / "tiny-imagenet-200.zip"
    (tmp_path / "tiny-imagenet-200").mkdir()
    assert find_tiny_imagenet(tmp_path) == tmp_path / "tiny-imagenet-200"


def test_without_val_it_is_a_pool_only(tmp_path: Path) -> None:
    base = tiny_imagenet(tmp_path)
    (base / "val" / "val_annotations.txt").unlink()
    assert len(train_files(base)) == 12
    with pytest.raises(GradcastError, match="no labelled images under val/"):
        read(base)


def test_a_damaged_list_of_labels_in_the_archive(tmp_path: Path) -> None:
    archive = zipped(tiny_imagenet(tmp_path), tmp_path / "tiny-imagenet-200.zip")
    content = archive.read_bytes()
    damaged = content.replace(b"1000.JPEG\tn0000", b"1000.JPEG\tm0000", 1)
    assert damaged != content
    archive.write_bytes(damaged)
    with pytest.raises(GradcastError, match=r"val_annotations\.txt in .* cannot be read"):
        read(archive)


def test_without_train_it_is_nothing(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    with pytest.raises(GradcastError, match="no images under train/"):
        train_files(tmp_path / "x")


@pytest.mark.data
def test_the_real_files(data: Path) -> None:
    files = train_files(data / "tiny-imagenet-200")
    assert len(files) >= 12_000
    assert len({name.split("/")[1] for name in files.names}) == 200
