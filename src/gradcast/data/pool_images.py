"""Collections of images that serve as pools; where a publisher names a training split, only that."""

from pathlib import Path

from gradcast.data.limits import read_list
from gradcast.data.scan import ImageFiles, image_files
from gradcast.errors import GradcastError


def any_images(root: Path) -> ImageFiles:
    """Every image below a folder or in a zip archive."""
    files = image_files(root)
    if not files:
        raise GradcastError(f"{root} holds no image files; choose a folder of images")
    return files


def cub(root: Path) -> ImageFiles:
    """CUB-200-2011: the training split (5,994 images) where images.txt and train_test_split.txt say which that is."""
    files, listed, split = any_images(root), root / "images.txt", root / "train_test_split.txt"
    if not listed.is_file() or not split.is_file():
        return files
    training = {number for number, flag in _pairs(split) if flag == "1"}
    wanted = {f"images/{name}" for number, name in _pairs(listed) if number in training}
    return _chosen(files, wanted, split)


def aircraft(root: Path) -> ImageFiles:
    """FGVC-Aircraft: the official training split (3,334 images) where its list is there."""
    files, listed = any_images(root), root / "data" / "images_train.txt"
    if not listed.is_file():
        return files
    wanted = {f"data/images/{line}.jpg" for line in read_list(listed)}
    return _chosen(files, wanted, listed)


def _pairs(path: Path) -> list[list[str]]:
    """A number and a word on each line."""
    pairs = [line.split(maxsplit=1) for line in read_list(path)]
    if not all(len(pair) == 2 for pair in pairs):
        raise GradcastError(f"{path} has a line that is no number and word; unpack the archive again")
    return pairs


def _chosen(files: ImageFiles, wanted: set[str], listed: Path) -> ImageFiles:
    found = [name for name in files.names if name in wanted]
    if not found:
        raise GradcastError(f"none of the images that {listed} names is there; unpack the archive again")
    return files.only(found)
