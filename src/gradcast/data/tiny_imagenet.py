"""Tiny ImageNet: 200 classes of 64x64 JPEGs, in the publisher's zip or unpacked; any number of images a class."""

import zipfile
from pathlib import Path

from gradcast.data.labelled import LabelledFiles
from gradcast.data.limits import LARGEST_LIST, read_list
from gradcast.data.scan import UNREADABLE, ImageFiles, image_files
from gradcast.errors import GradcastError, message_of

FOLDER = "tiny-imagenet-200"
SHAPE = (3, 64, 64)


def find_tiny_imagenet(data: Path) -> Path | None:
    """The folder, or else the archive."""
    return next((place for place in (data / FOLDER, data / f"{FOLDER}.zip") if place.exists()), None)


def tiny_imagenet_train(root: Path) -> ImageFiles:
    """The training images, which serve as a pool."""
    return _train(image_files(root))


def _train(files: ImageFiles) -> ImageFiles:
    train = [name for name in files.names if "/train/" in f"/{name}"]
    if not train:
        raise GradcastError(f"{files.root} holds no images under train/; fetch it again")
    return files.only(train)


def tiny_imagenet(root: Path) -> LabelledFiles:
    """Training and validation images; classes are WordNet ids in sorted order."""
    files = image_files(root)
    train = _train(files)
    owners = [_class(name) for name in train.names]
    classes = tuple(sorted(set(owners)))
    place = {wnid: index for index, wnid in enumerate(classes)}
    labels = _val_labels(root)
    val = [name for name in files.names if "/val/" in f"/{name}" and labels.get(_file(name)) in place]
    if not val:
        raise GradcastError(
            f"{root} has no labelled images under val/, which are its test set; fetch the complete archive, "
            "or use it as a pool"
        )
    val_y = [place[labels[_file(name)]] for name in val]
    return LabelledFiles("tiny-imagenet", train, [place[o] for o in owners], files.only(val), val_y, classes)


def _class(name: str) -> str:
    """train/n01443537/images/n01443537_0.JPEG belongs to n01443537."""
    parts = name.split("/")
    return parts[parts.index("train") + 1]


def _file(name: str) -> str:
    return name.rpartition("/")[2]


def _val_labels(root: Path) -> dict[str, str]:
    """val_annotations.txt: file name, WordNet id, and a box that nobody needs here."""
    if root.is_dir():
        path = root / "val" / "val_annotations.txt"
        lines = read_list(path) if path.is_file() else []
    else:
        lines = _unzipped(root, f"{FOLDER}/val/val_annotations.txt").splitlines()
    rows = [line.split("\t") for line in lines]
    return {row[0]: row[1] for row in rows if len(row) > 1}


def _unzipped(root: Path, name: str) -> str:
    try:
        with zipfile.ZipFile(root) as archive:
            if name not in archive.namelist():
                return ""
            with archive.open(name) as entry:
                content = entry.read(LARGEST_LIST + 1)
    except UNREADABLE as error:
        raise GradcastError(f"{name} in {root} cannot be read ({message_of(error)}); fetch it again") from None
    if len(content) > LARGEST_LIST:
        raise GradcastError(f"{name} in {root} has more than {LARGEST_LIST} bytes; fetch it again")
    return content.decode(encoding="utf-8-sig", errors="replace")
