import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from gradcast.data.cache import Cache
from gradcast.data.catalogue import CATALOGUE
from gradcast.data.check import Findings, check, file_digest, own_folder
from gradcast.data.idx import FILES
from gradcast.data.load import Shelf, untracked
from gradcast.errors import GradcastError
from tests.data.images import fill, tiny_imagenet


def found(name: str, data: Path) -> Findings:
    return check(CATALOGUE[name], Shelf(data, Cache(data / "cache"), untracked))


def write_mnist(data: Path, *, test_label: int = 9) -> None:
    (data / "mnist").mkdir()
    for split, count in (("train", 20), ("test", 10)):
        for name, array in zip(FILES[split], (np.zeros((count, 28, 28)), np.arange(count) % 10), strict=True):
            if split == "test" and array.ndim == 1:
                array = np.minimum(array, test_label)
            header = b"\0\0\x08" + bytes([array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
            (data / "mnist" / f"{name}.gz").write_bytes(gzip.compress(header + array.astype(np.uint8).tobytes()))


def test_counts_and_incompleteness(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    findings = found("mnist", tmp_path)
    assert "20 training images, 2 a class" in findings.facts
    assert "incomplete: 20 of 60,000 training images" in findings.notes
    assert any("not the publisher's file byte for byte; its content was checked" in note for note in findings.notes)
    assert findings.problems == []


def test_a_class_without_test_image_is_a_problem(tmp_path: Path) -> None:
    write_mnist(tmp_path, test_label=8)
    assert found("mnist", tmp_path).problems == ["class '9' has no test image"]


def test_a_damaged_file_is_a_problem(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    (tmp_path / "mnist" / f"{FILES['train'][0]}.gz").write_bytes(b"broken")
    findings = found("mnist", tmp_path)
    assert "cannot be unpacked" in findings.problems[0]
    assert findings.verdict == "has problems"  # a run would fail, whatever is unreadable


def test_every_bad_image_is_named(tmp_path: Path) -> None:
    base = tiny_imagenet(tmp_path)
    bad = [base / "train" / "n00000001" / "images" / "101.JPEG", base / "val" / "images" / "1000.JPEG"]
    for path in bad:
        path.write_bytes(path.read_bytes()[:300])
    findings = found("tiny-imagenet", tmp_path)
    assert len(findings.unreadable) == 2
    assert all(any(str(path) in problem for problem in findings.unreadable) for path in bad)
    assert (findings.problems, findings.verdict) == ([], "has unreadable images, which a run leaves out")


def test_a_pool_is_counted(tmp_path: Path) -> None:
    fill(tmp_path / "coco" / "a", 3)
    findings = found("coco", tmp_path)
    assert "3 training images" in findings.facts
    assert findings.problems == []


def test_own_folders(tmp_path: Path) -> None:
    for label, count in (("cat", 5), ("dog", 10)):
        fill(tmp_path / "pets" / label, count)
    fill(tmp_path / "pets" / ".thumbnails", 2)
    (tmp_path / "pets" / "cat" / "x.heic").write_bytes(b"x")
    (tmp_path / "pets" / "notes.txt").write_bytes(b"x")
    shelf = Shelf(tmp_path, Cache(tmp_path / "cache"), untracked)
    findings = check(own_folder(tmp_path / "pets"), shelf)
    assert findings.facts[-1] == "2 classes with images to train and to test on: cat (4 and 1), dog (8 and 2)"
    (note,) = findings.notes
    assert note == "left out: 1 .heic (cat/x.heic); 1 hidden (.thumbnails); 1 no images (notes.txt)"
    assert findings.verdict == "ok"
    for path in (tmp_path / "pets" / "cat").glob("*.png"):
        path.write_text("no image")
    findings = check(own_folder(tmp_path / "pets" / "cat"), shelf)
    assert "usable as a pool only" in findings.notes[0]
    assert findings.problems == [f"none of the 5 images in {tmp_path / 'pets' / 'cat'} can be read"]


def test_a_missing_dataset_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(GradcastError, match="svhn is not in"):
        found("svhn", tmp_path)


def test_digest(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    assert file_digest(tmp_path / "a", "md5") == "900150983cd24fb0d6963f7d28e17f72"


@pytest.mark.data
@pytest.mark.parametrize("name", ["mnist", "cifar-100"])
def test_the_real_files_are_complete(data: Path, name: str) -> None:
    findings = found(name, data)
    assert findings.problems == []
    assert not any("incomplete" in note for note in findings.notes)
