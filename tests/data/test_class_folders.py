import os
import re
from pathlib import Path

import numpy as np
import pytest

from gradcast.data.class_folders import EMPTY, NO_CLASS, class_folders
from gradcast.data.scan import HIDDEN
from tests.data.hostile import refusal
from tests.data.images import fill


def test_folders_with_train_and_test(tmp_path: Path) -> None:
    for part, count in (("train", 3), ("test", 2)):
        for label in ("dog", "cat"):
            fill(tmp_path / part / label, count)
    found = class_folders(tmp_path)
    assert found.classes == ("cat", "dog")
    assert found.train.names == tuple(f"train/{label}/00{i}.png" for label in ("cat", "dog") for i in range(3))
    assert found.test.names == tuple(f"test/{label}/00{i}.png" for label in ("cat", "dog") for i in range(2))
    assert (found.train_y, found.test_y) == ([0, 0, 0, 1, 1, 1], [0, 0, 1, 1])


def test_val_serves_as_the_test_set_where_there_is_no_other(tmp_path: Path) -> None:
    for part in ("train", "val"):
        fill(tmp_path / part / "cat" / "deep", 1)
        fill(tmp_path / part / "dog", 1)
    assert class_folders(tmp_path).test.names == ("val/cat/deep/000.png", "val/dog/000.png")
    fill(tmp_path / "test" / "cat", 1)
    fill(tmp_path / "test" / "dog", 1)
    assert class_folders(tmp_path).test.names == ("test/cat/000.png", "test/dog/000.png")


def test_a_fifth_of_each_class_is_held_out(tmp_path: Path) -> None:
    for label, count in (("many", 20), ("few", 3)):
        fill(tmp_path / label, count)
    found = class_folders(tmp_path)
    assert found.classes == ("few", "many")
    assert np.bincount(found.train_y).tolist() == [2, 16]
    assert np.bincount(found.test_y).tolist() == [1, 4]
    every = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.png")}
    assert {*found.train.names, *found.test.names} == every
    for names, labels in ((found.train.names, found.train_y), (found.test.names, found.test_y)):
        assert [found.classes[label] for label in labels] == [name.split("/")[0] for name in names]


def test_which_images_are_held_out_depends_on_the_seed_and_on_nothing_else(tmp_path: Path) -> None:
    fill(tmp_path / "a", 20)
    fill(tmp_path / "b", 20)
    draws = [class_folders(tmp_path, data_seed=seed).test.names for seed in (0, 0, 1, 2)]
    assert draws[0] == draws[1]
    assert len(set(draws)) == 3
    fill(tmp_path / "0 more", 5)
    assert class_folders(tmp_path).test.names[1:] == draws[0]


def test_files_outside_of_class_folders_are_left_out(tmp_path: Path) -> None:
    for part in ("train", "test"):
        fill(tmp_path / part, 1, start=50)
        fill(tmp_path / part / "cat", 2)
        fill(tmp_path / part / "dog", 2)
        (tmp_path / part / "cat" / "notes.txt").touch()
    fill(tmp_path, 1)
    found = class_folders(tmp_path)
    assert found.classes == ("cat", "dog")
    assert (len(found.train), len(found.test)) == (4, 4)


def test_a_class_may_be_called_train(tmp_path: Path) -> None:
    for label in ("bus", "train"):
        fill(tmp_path / label, 5)
    assert class_folders(tmp_path).classes == ("bus", "train")


@pytest.mark.parametrize(
    ("folders", "message"),
    [
        ([], "{root} has no folders of images; lay it out as train/CLASS/"),
        ([("", 3)], "{root} has no folders of images"),
        ([("train", 3), ("test", 3)], "{root} has no folders of images"),
        ([("cat", 9)], "{root} has only the folder 'cat' of images"),
        ([("train/cat", 3), ("train/dog", 3)], "{root} has folders in train/ but neither test/ nor val/; add one"),
        ([("train/cat", 3), ("train/dog", 3), ("other/cat", 3), ("other/dog", 3)], "{root} has folders in train/ but"),
        ([("Train/cat", 3), ("train/cat", 3), ("test/cat", 3)], "{root} has both 'Train' and 'train'; keep one"),
        (
            [("one/cat", 3), ("one/dog", 3), ("two/cat", 3), ("two/dog", 3)],
            "'one' and 'two' in {root} hold folders of the same names, 'cat' among them: call them train and test",
        ),
        ([("train/cat", 3), ("train/dog", 3), ("test/cat", 3)], "class 'dog' of folder has no readable test image"),
        ([("train/cat", 3), ("train/dog", 3), ("test", 3)], "{root} has no folders of images in test/; lay it out"),
        (
            [("train/cat", 3), ("train/dog", 3), ("test/cat", 3), ("test/dog", 1), ("test/emu", 1)],
            "class 'emu' of {root} has test images but no training image; add some or remove it",
        ),
        ([("bus", 3), ("car", 3), ("train", 1)], "class 'train' of {root} has a single image, too few to train"),
        ([("cat", 3), ("dog", 3), ("emu", 1)], "class 'emu' of {root} has a single image, too few to train and to"),
    ],
)
def test_folders_that_cannot_be_used(tmp_path: Path, folders: list[tuple[str, int]], message: str) -> None:
    for folder, count in folders:
        fill(tmp_path / folder, count)
    assert re.search(message.replace("{root}", str(tmp_path)), refusal(class_folders, tmp_path))


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"text")
    for name in ("file", "missing"):
        assert re.search(
            f"{tmp_path / name} is neither a folder nor a zip archive", refusal(class_folders, tmp_path / name)
        )


@pytest.mark.parametrize(
    ("train", "test"),
    [
        ("Train", "Test"),
        ("training", "testing"),
        ("TRAIN", "Valid"),
        ("training_set", "test_set"),
        ("train-images", "validation"),
    ],
)
def test_splits_of_other_names_are_no_classes(tmp_path: Path, train: str, test: str) -> None:
    for part in (train, test):
        for label in ("cat", "dog"):
            fill(tmp_path / part / label, 2)
    found = class_folders(tmp_path)
    assert found.classes == ("cat", "dog")
    assert found.train.names == tuple(f"{train}/{label}/00{i}.png" for label in ("cat", "dog") for i in range(2))
    assert {name.split("/")[0] for name in found.test.names} == {test}


def test_links_to_class_folders_are_classes_and_hidden_folders_are_not(tmp_path: Path) -> None:
    fill(tmp_path / "elsewhere" / "dog", 5)
    fill(tmp_path / "pets" / "cat", 5)
    fill(tmp_path / "pets" / ".ipynb_checkpoints", 5)
    (tmp_path / "pets" / "dog").symlink_to(tmp_path / "elsewhere" / "dog")
    found = class_folders(tmp_path / "pets")
    assert found.classes == ("cat", "dog")
    assert (len(found.train), len(found.test)) == (8, 2)
    assert found.train.left_out == {HIDDEN: [".ipynb_checkpoints"]}


def test_images_of_no_class_and_other_splits_are_named(tmp_path: Path) -> None:
    for part in ("train", "test", "val", "spare"):
        for label in ("cat", "dog"):
            fill(tmp_path / part / label, 1)
    fill(tmp_path / "train", 1)
    fill(tmp_path, 1)
    left_out = class_folders(tmp_path).left_out
    assert left_out == {
        NO_CLASS: ["000.png", "train/000.png"],
        "images outside train/ and test/": [
            f"{p}/{label}/000.png" for p in ("spare", "val") for label in ("cat", "dog")
        ],
    }


def test_names_of_any_bytes_become_text(tmp_path: Path) -> None:
    for label in ("cat", os.fsdecode(b"cl\xffass")):
        fill(tmp_path / label, 5)
    found = class_folders(tmp_path)
    assert found.classes == ("cat", "cl\ufffdass")
    assert len(found.train) == 8


def test_empty_class_folders_are_named(tmp_path: Path) -> None:
    for label in ("cat", "dog"):
        fill(tmp_path / "plain" / label, 2)
        for part in ("train", "test"):
            fill(tmp_path / "split" / part / label, 1)
    for place in ("plain/bird", "plain/.thumbnails", "split/train/bird", "split/test/fish/deep", "split/other"):
        (tmp_path / place).mkdir(parents=True)
    assert class_folders(tmp_path / "plain").left_out == {EMPTY: ["bird"]}
    assert class_folders(tmp_path / "split").left_out == {EMPTY: ["train/bird", "test/fish"]}


def test_how_many_classes_are_enough_is_the_callers_choice(tmp_path: Path) -> None:
    fill(tmp_path / "cat", 2)
    assert class_folders(tmp_path, fewest=1).classes == ("cat",)
    assert "has only the folder 'cat' of images" in refusal(class_folders, tmp_path)
