import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradcast.data.mini_imagenet import SPLITS, TEST, VAL, class_folders, find_caches, find_mini_imagenet, read_caches
from gradcast.errors import GradcastError
from tests.data.hostile import COPIES, PROTOCOLS, pickled, refusal, refusals_of_damaged_copies
from tests.data.images import fill
from tests.data.test_pickles import Call

EACH = 12  # images a class
SHUFFLED = [7, 8, 11, 2, 9, 10, 1, 0, 4, 5, 6, 3]  # by numpy's seed 1234
CLASSES = {"train": ("n03", "n01"), "val": ("n02",), "test": ("n00",)}


def cache(split: str, *, side: int = 84) -> dict[str, Any]:
    """One split; pixel values tell class and image, and the classes are interleaved."""
    names = CLASSES[split]
    labels = np.arange(EACH * len(names)) % len(names)
    images = np.arange(EACH * len(names)) // len(names)
    values = np.array([10 * int(names[label][1:]) for label in labels]) + images
    pixels = np.broadcast_to(values[:, None, None, None], (len(labels), side, side, 3)).astype(np.uint8)
    pixels[..., 2] += 100
    rows = {name: np.flatnonzero(labels == index).tolist() for index, name in enumerate(names)}
    return {"image_data": pixels, "class_dict": rows}


def write(folder: Path, split: str, content: Any, protocol: str | int = "python 2") -> Path:
    path = folder / f"mini-imagenet-cache-{split}.pkl"
    path.write_bytes(pickled(content, protocol))
    return path


@pytest.fixture
def small(tmp_path: Path) -> list[Path]:
    """The three caches with a few images."""
    for split in SPLITS:
        write(tmp_path, split, cache(split))
    return find_caches(tmp_path)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_joins_the_splits_and_holds_out_a_sixth_of_every_class(tmp_path: Path, protocol: str | int) -> None:
    for split in SPLITS:
        write(tmp_path, split, cache(split), protocol)
    source = read_caches(find_caches(tmp_path))
    assert source.name == "mini-imagenet"
    assert source.classes == ("n01", "n03", "n02", "n00")
    assert source.shape == (3, 84, 84)
    assert np.bincount(source.train.y).tolist() == [10] * 4
    assert np.bincount(source.test.y).tolist() == [2] * 4
    tens = [10 * int(name[1:]) for name in source.classes]
    assert source.train.x[:, 0, 5, 7].tolist() == [ten + image for ten in tens for image in SHUFFLED[:10]]
    assert source.test.x[:, 1, 80, 3].tolist() == [ten + image for ten in tens for image in SHUFFLED[10:]]
    assert np.array_equal(source.test.x[:, 2], source.test.x[:, 0] + 100)


def test_rows_as_arrays_are_read_too(small: list[Path]) -> None:
    before = read_caches(small)
    content = cache("train")
    content["class_dict"] = {name: np.array(rows, np.uint16) for name, rows in content["class_dict"].items()}
    write(small[0].parent, "train", content, 4)
    assert np.array_equal(read_caches(small).train.x, before.train.x)


def test_finds_the_folder_and_the_caches_only_when_all_are_there(tmp_path: Path) -> None:
    assert find_mini_imagenet(tmp_path) is None
    folder = tmp_path / "mini-imagenet"
    folder.mkdir()
    assert find_mini_imagenet(tmp_path) == folder
    for split in SPLITS:
        assert find_caches(folder) == []
        write(folder, split, {})
    assert [path.name for path in find_caches(folder)] == [f"mini-imagenet-cache-{split}.pkl" for split in SPLITS]


def test_a_pickle_that_wants_to_call_something_is_refused(small: list[Path]) -> None:
    mark = small[0].parent / "made by the pickle"
    content = cache("val") | {"more": Call(os.system, (f"touch '{mark}'",))}
    path = write(small[0].parent, "val", content)
    assert re.search(f"{path} asks to call posix.system", refusal(read_caches, small))
    assert not mark.exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"image_data": None}, "{path} has no 'image_data' of N x height x width x 3 bytes; fetch it again"),
        ({"image_data": [1, 2]}, "{path} has no 'image_data'"),
        ({"image_data": np.zeros((EACH, 84, 84), np.uint8)}, "{path} has no 'image_data'"),
        ({"image_data": np.zeros((EACH, 3, 84, 84), np.uint8)}, "{path} has no 'image_data'"),
        ({"image_data": np.zeros((EACH, 84, 84, 3), np.float32)}, "{path} has no 'image_data'"),
        ({"image_data": np.zeros((EACH, 0, 84, 3), np.uint8)}, "{path} has no 'image_data'"),
        ({"image_data": np.array([None] * EACH)}, "{path} is not a readable pickle .*not plain numbers"),
        ({"image_data": cache("val", side=80)["image_data"]}, "{path} holds images of 80x80, another file of 84x84"),
        ({"image_data": cache("val")["image_data"][:-1]}, "class 'n02' in {path} lists rows that are not there"),
        ({"class_dict": None}, "{path} has no 'class_dict'; fetch it again"),
        ({"class_dict": {}}, "{path} has no 'class_dict'; fetch it again"),
        ({"class_dict": [1]}, "{path} has no 'class_dict'; fetch it again"),
        ({"class_dict": {"n02": [0, EACH]}}, "class 'n02' in {path} lists rows that are not there"),
        ({"class_dict": {"n02": [-1, 0]}}, "class 'n02' in {path} lists rows that are not there"),
        ({"class_dict": {"n02": [0, 2**70]}}, "class 'n02' in {path} lists rows that are not there"),
        ({"class_dict": {"n02": [0.0, 1.0]}}, "class 'n02' in {path} lists rows that are not there"),
        ({"class_dict": {"n02": [[0], [1, 2]]}}, "class 'n02' in {path} lists rows that are not there"),
        ({"class_dict": {"n02": [[0, 1]]}}, "class 'n02' in {path} lists rows that are not there"),
        ({"class_dict": {"n02": 3}}, "class 'n02' in {path} lists rows that are not there"),
        ({"class_dict": {"n02": "rows"}}, "class 'n02' in {path} lists rows that are not there"),
        ({"class_dict": {"n02": [True, False]}}, "class 'n02' in {path} lists rows that are not there"),
        ({"class_dict": {"n02": [4]}}, "class 'n02' in {path} has a single image, too few to train and to test on"),
        ({"class_dict": {"a\nb": [99]}}, r"class 'a\\nb' in {path} lists rows that are not there"),
    ],
)
def test_wrong_content_is_named(small: list[Path], changes: dict[str, Any], message: str) -> None:
    content = cache("val") | changes
    path = write(small[0].parent, "val", {key: value for key, value in content.items() if value is not None})
    assert re.search(message.replace("{path}", str(path)), refusal(read_caches, small))


@pytest.mark.parametrize("content", [[1, 2], 7, None, b"text", {}, {3: 4}])
def test_a_pickle_of_something_else(small: list[Path], content: Any) -> None:
    path = write(small[0].parent, "val", content)
    assert re.search(f"{path} has no 'image_data'", refusal(read_caches, small))


@pytest.mark.parametrize("protocol", ["python 2", 4])
def test_damaged_copies(tmp_path: Path, protocol: str | int) -> None:
    paths = [write(tmp_path, split, cache(split, side=3), protocol) for split in SPLITS]
    assert 0 < refusals_of_damaged_copies(paths[0], lambda: read_caches(paths)) < COPIES


@pytest.mark.parametrize("split", [True, False])
def test_folders_with_or_without_the_few_shot_splits_hold_out_a_sixth_of_each_class(
    tmp_path: Path, split: bool
) -> None:
    classes = ("n03", VAL.split()[3], TEST.split()[0])
    for number, (part, label) in enumerate(zip(SPLITS, classes, strict=True)):
        fill(tmp_path / part / label if split else tmp_path / label, 12, suffix=".jpg", start=20 * number)
    found = class_folders(tmp_path)
    assert found.classes == classes  # as the caches number them
    assert (len(found.train), len(found.test)) == (30, 6)
    assert found.test_y == [0, 0, 1, 1, 2, 2]
    names = sorted(name for name in (*found.train.names, *found.test.names) if "n03/" in name)
    assert list(found.test.names[:2]) == [names[index] for index in SHUFFLED[10:]]
    assert all(
        f"/{classes[label]}/" in f"/{name}" for name, label in zip(found.train.names, found.train_y, strict=True)
    )


def test_caches_and_folders_number_classes_alike(small: list[Path], tmp_path: Path) -> None:
    for split, labels in CLASSES.items():
        for label in labels:
            fill(tmp_path / "folders" / split / label, 3)
    assert class_folders(tmp_path / "folders").classes == read_caches(small).classes


def test_few_shot_splits_of_other_names(tmp_path: Path) -> None:
    for part, label in (("Train", "n3"), ("Val", "n1"), ("TEST", "n2")):
        fill(tmp_path / part / label, 3)
    assert class_folders(tmp_path).classes == ("n3", "n1", "n2")


def test_splits_of_the_same_classes_are_used_as_they_are(tmp_path: Path) -> None:
    for part, count in (("train", 5), ("val", 3)):
        for label in ("n1", "n2"):
            fill(tmp_path / part / label, count)
    found = class_folders(tmp_path)
    assert found.name == "mini-imagenet"
    assert {name.split("/")[0] for name in found.train.names} == {"train"}
    assert {name.split("/")[0] for name in found.test.names} == {"val"}
    assert (found.classes, len(found.train), len(found.test)) == (("n1", "n2"), 10, 6)


def test_the_published_splits_are_apart_and_complete() -> None:
    assert (len(VAL.split()), len(TEST.split()), len({*VAL.split(), *TEST.split()})) == (16, 20, 36)


def test_no_class_folders(tmp_path: Path) -> None:
    fill(tmp_path, 3)
    with pytest.raises(GradcastError, match="no folders of images"):
        class_folders(tmp_path)
