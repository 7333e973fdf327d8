"""Labelled images in folders: which folders are classes, which are splits, and what belongs to neither."""

import os
import re
from collections.abc import Iterable
from pathlib import Path

from gradcast.data.labelled import LabelledFiles
from gradcast.data.scan import hidden, image_files
from gradcast.errors import GradcastError
from gradcast.randomness import numpy_generator

# What splits are called, whatever the case and other signs, as in "Training_set". Those to test on in order of choice.
SPLITS = {
    "train": "train|training",
    "test": "test|testing",
    "val": "val|valid|validation",
    "eval": "eval|evaluation",
}
ENDINGS = "(set|data|images|split)?"
HELD_OUT = 5  # one image in so many, where a folder has no test set of its own
NO_CLASS = "images in no class folder"
EMPTY = "class folders without an image"


def class_folders(root: Path, *, data_seed: int = 0, fewest: int = 2) -> LabelledFiles:
    """``train/CLASS/*`` and ``test/CLASS/*`` (or ``val``); or just ``CLASS/*``, a fifth of each held out for tests.

    ``fewest``: how many classes there must be.
    """
    files = image_files(root)
    folders = sorted({name.split("/")[0] for name in files.names if "/" in name})
    train, test = find_split(folders, root)
    if train and test:
        parts = [[name for name in files.names if name.startswith(f"{part}/")] for part in (train, test)]
        kept, held = ([name for name in part if name.count("/") > 1] for part in parts)
        depth = 1
    else:
        inside = [name for name in files.names if "/" in name]
        _check_classes(folders, inside, root, train)
        kept, held = _held_out(inside, root, data_seed)
        depth = 0
    classes = tuple(sorted({name.split("/")[depth] for name in kept}))
    if len(classes) < fewest:
        found = f"only the folder {classes[0]!r}" if classes else "no folders"
        raise GradcastError(f"{root} has {found} of images; lay it out as train/CLASS/*.png and test/CLASS/*.png")
    if not held:
        raise GradcastError(f"{root} has no folders of images in {test}/; lay it out as {test}/CLASS/*.png")
    place = {label: index for index, label in enumerate(classes)}
    strangers = sorted({name.split("/")[depth] for name in held} - set(classes))
    if strangers:
        raise GradcastError(
            f"class {strangers[0]!r} of {root} has test images but no training image; add some or remove it"
        )
    train_y, test_y = ([place[name.split("/")[depth]] for name in part] for part in (kept, held))
    splits = (train, test) if depth else ()
    left_out = _unused(files.names, {*kept, *held}, splits) | _empty(root, files.names, splits)
    named = tuple(map(_as_text, classes))
    return LabelledFiles("folder", files.only(kept), train_y, files.only(held), test_y, named, left_out)


def find_split(folders: Iterable[str], root: Path) -> tuple[str | None, str | None]:
    """The folder to train on and the one to test on, by their names."""
    found: dict[str, str] = {}
    for folder in folders:
        split = split_of(folder)
        if split in found:
            raise GradcastError(f"{root} has both {found[split]!r} and {folder!r}; keep one, or join them")
        if split is not None:
            found[split] = folder
    return found.get("train"), next((found[split] for split in SPLITS if split != "train" and split in found), None)


def split_of(folder: str) -> str | None:
    """Which split a folder is, by its name."""
    letters = re.sub("[^a-z]", "", folder.lower())
    return next((split for split, words in SPLITS.items() if re.fullmatch(f"({words}){ENDINGS}", letters)), None)


def _check_classes(folders: list[str], names: list[str], root: Path, train: str | None) -> None:
    """Folders that hold nothing but folders may be splits of another name, and no classes."""
    inner: dict[str, set[str]] = {folder: set() for folder in folders}
    for name in names:
        folder, *rest = name.split("/")
        inner[folder].add(rest[0] if len(rest) > 1 else "")
    if train is not None and "" not in inner[train]:
        raise GradcastError(f"{root} has folders in {train}/ but neither test/ nor val/; add one of them")
    same = {frozenset(inside) for inside in inner.values()}
    if len(folders) > 1 and len(same) == 1 and len(inside := next(iter(same))) > 1 and "" not in inside:
        raise GradcastError(
            f"{folders[0]!r} and {folders[1]!r} in {root} hold folders of the same names, {min(inside)!r} among them: "
            "call them train and test, or set the path to one of them"
        )


def _held_out(names: list[str], root: Path, data_seed: int) -> tuple[list[str], list[str]]:
    train: list[str] = []
    test: list[str] = []
    by_class: dict[str, list[str]] = {}
    for name in names:
        by_class.setdefault(name.split("/")[0], []).append(name)
    for label, own in by_class.items():
        if len(own) < 2:
            raise GradcastError(
                f"class {label!r} of {root} has a single image, too few to train and to test on; add some or remove it"
            )
        order = numpy_generator(data_seed, "held out", label).permutation(len(own))
        held = max(len(own) // HELD_OUT, 1)
        test += [own[i] for i in sorted(order[:held])]
        train += [own[i] for i in sorted(order[held:])]
    return train, test


def _as_text(folder: str) -> str:
    """A folder's name as text that can be written anywhere, whatever bytes it has."""
    return folder.encode(errors="surrogateescape").decode(errors="replace")


def _empty(root: Path, names: Iterable[str], splits: Iterable[str | None]) -> dict[str, list[str]]:
    """Folders of a class, or of a class in a split, that hold no image; an archive has no empty folders."""
    if not root.is_dir():
        return {}
    parts = [f"{split}/" for split in splits] or [""]
    full = {"/".join(name.split("/")[: part.count("/") + 1]) for name in names for part in parts}
    found = [f"{part}{name}" for part in parts for name in sorted(os.listdir(root / part)) if not hidden(name)]
    empty = [own for own in found if own not in full and os.path.isdir(root / own)]
    return {EMPTY: empty} if empty else {}


def _unused(names: Iterable[str], used: set[str], splits: Iterable[str | None]) -> dict[str, list[str]]:
    """Images of no class, and of folders beside those to train and to test on."""
    found: dict[str, list[str]] = {}
    beside = f"images outside {' and '.join(f'{part}/' for part in splits)}"
    for name in names:
        if name not in used:
            outside = splits and "/" in name and name.split("/")[0] not in splits
            found.setdefault(beside if outside else NO_CLASS, []).append(name)
    return found
