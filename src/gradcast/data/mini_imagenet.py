"""miniImageNet: 100 classes of 84x84 images, as the few-shot pickle caches or as a folder a class.

The few-shot splits hold different classes. A stream wants all 100 with test images of each, so the splits are joined
and a sixth of every class (100 of 600) is held out, the last after the published shuffle. Classes are numbered in the
order of their splits and then of their names, in whichever form the dataset comes. Folders whose splits hold the same
classes are no few-shot splits and are used as they are.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gradcast.data.class_folders import class_folders as ordinary_split
from gradcast.data.class_folders import split_of
from gradcast.data.images import Images, Source
from gradcast.data.labelled import LabelledFiles
from gradcast.data.pickles import load_pickle
from gradcast.data.scan import image_files
from gradcast.errors import GradcastError

SPLITS = ("train", "val", "test")
HELD_OUT = 6  # one image in so many
# Classes of the few-shot splits beside the 64 to train on.
VAL = """
    n01855672 n02091244 n02114548 n02138441 n02174001 n02950826 n02971356 n02981792 n03075370 n03417042 n03535780
    n03584254 n03770439 n03773504 n03980874 n09256479
"""
TEST = """
    n01930112 n01981276 n02099601 n02110063 n02110341 n02116738 n02129165 n02219486 n02443484 n02871525 n03127925
    n03146219 n03272010 n03544143 n03775546 n04146614 n04149813 n04418357 n04522168 n07613480
"""
SHUFFLE = 1234  # seed of the published shuffle; a class's own, so that no other class changes it


def find_mini_imagenet(data: Path) -> Path | None:
    """The folder, whichever form it holds."""
    folder = data / "mini-imagenet"
    return folder if folder.is_dir() else None


def find_caches(folder: Path) -> list[Path]:
    """mini-imagenet-cache-{train,val,test}.pkl, where all are there."""
    paths = [folder / f"mini-imagenet-cache-{split}.pkl" for split in SPLITS]
    return paths if all(path.is_file() for path in paths) else []


def read_caches(paths: list[Path]) -> Source:
    """Pickles with ``image_data`` (N x 84 x 84 x 3 bytes) and ``class_dict`` (class name to rows)."""
    train_x: list[np.ndarray] = []
    test_x: list[np.ndarray] = []
    train_y: list[int] = []
    test_y: list[int] = []
    names: list[str] = []
    for path in paths:
        pixels, classes = _read(path)
        height, width = pixels.shape[1:3]
        if train_x and train_x[0].shape[2:] != (height, width):
            other = "x".join(map(str, train_x[0].shape[2:]))
            raise GradcastError(f"{path} holds images of {height}x{width}, another file of {other}; fetch it again")
        for name, rows in sorted(classes.items()):
            own = pixels[rows].transpose(0, 3, 1, 2)
            if len(rows) < 2:
                count = "a single image" if rows else "no image"
                raise GradcastError(f"class {name!r} in {path} has {count}, too few to train and to test on")
            kept, held = _parted(len(rows))
            train_x.append(own[kept])
            test_x.append(own[held])
            train_y += [len(names)] * len(kept)
            test_y += [len(names)] * len(held)
            names.append(name)
    train = Images(np.concatenate(train_x), np.array(train_y, dtype=np.int64))
    return Source(
        "mini-imagenet", train, Images(np.concatenate(test_x), np.array(test_y, dtype=np.int64)), tuple(names)
    )


def class_folders(root: Path) -> LabelledFiles:
    """``CLASS/*``, or the few-shot splits ``train/CLASS/*``, ``val/CLASS/*`` and ``test/CLASS/*``, joined as above."""
    files = image_files(root)
    by_class: dict[str, list[str]] = {}
    splits: dict[str, set[str]] = {}  # of each class
    for name in files.names:
        *folders, _ = name.split("/")
        split = split_of(folders[0]) if folders else None
        if split in SPLITS:
            folders = folders[1:]
        if folders:
            by_class.setdefault(folders[0], []).append(name)
            splits.setdefault(folders[0], set()).add(split if split in SPLITS else _published(folders[0]))
    if any(len(own) > 1 for own in splits.values()):
        return replace(ordinary_split(root), name="mini-imagenet")
    classes = tuple(sorted(by_class, key=lambda label: (SPLITS.index(next(iter(splits[label]))), label)))
    if len(classes) < 2:
        raise GradcastError(f"{root} has no folders of images, one a class; unpack it again")
    train: list[str] = []
    test: list[str] = []
    for label in classes:
        if len(by_class[label]) < 2:
            raise GradcastError(f"class {label!r} in {root} has a single image, too few to train and to test on")
        kept, held = _parted(len(by_class[label]))
        train += [by_class[label][index] for index in kept]
        test += [by_class[label][index] for index in held]
    owner = {name: index for index, label in enumerate(classes) for name in by_class[label]}
    train_y, test_y = ([owner[name] for name in part] for part in (train, test))
    return LabelledFiles("mini-imagenet", files.only(train), train_y, files.only(test), test_y, classes)


def _published(label: str) -> str:
    """The few-shot split of a class."""
    return "val" if label in VAL.split() else "test" if label in TEST.split() else "train"


def _parted(count: int) -> tuple[list[int], list[int]]:
    """Which of a class's images train, and which are held out."""
    order = np.random.RandomState(SHUFFLE).permutation(count).tolist()  # the generator it was made with
    held = max(count // HELD_OUT, 1)
    return order[:-held], order[-held:]


def _read(path: Path) -> tuple[np.ndarray, dict[str, list[int]]]:
    content = load_pickle(path)
    entries = {_text(key): value for key, value in content.items()} if isinstance(content, dict) else {}
    pixels, classes = entries.get("image_data"), entries.get("class_dict")
    if (
        not isinstance(pixels, np.ndarray)
        or pixels.ndim != 4
        or pixels.shape[3] != 3
        or pixels.dtype != np.uint8
        or not pixels.size
    ):
        raise GradcastError(f"{path} has no 'image_data' of N x height x width x 3 bytes; fetch it again")
    if not isinstance(classes, dict) or not classes:
        raise GradcastError(f"{path} has no 'class_dict'; fetch it again")
    found: dict[str, list[int]] = {}
    for name, rows in classes.items():
        listed = _rows(rows, len(pixels))
        if listed is None:
            raise GradcastError(f"class {_text(name)!r} in {path} lists rows that are not there; fetch it again")
        found[_text(name)] = listed
    return pixels, found


def _rows(rows: Any, count: int) -> list[int] | None:  # noqa: ANN401
    """A list or array of row numbers, or None when it is something else."""
    listed = rows.tolist() if isinstance(rows, np.ndarray) and rows.dtype.kind in "iu" else rows
    good = isinstance(listed, list) and all(type(row) is int and 0 <= row < count for row in listed)
    return listed if good else None


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
