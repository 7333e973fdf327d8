"""Your own data: an .npz file, arrays or tensors, any torch Dataset; images or feature vectors."""

from collections.abc import Sequence, Sized
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset

from gradcast.data import arrays
from gradcast.data.images import CHUNK, Images, Inputs, Pixels, Source
from gradcast.data.vectors import vectors
from gradcast.errors import GradcastError, message_of

Array = np.ndarray | Tensor
Labels = Array | Sequence[int] | Sequence[str]
NPZ_KEYS = ("x_train", "y_train", "x_test", "y_test")
POOL_KEYS = ("x",)


def read_npz(path: Path) -> Source:
    """An .npz file with x_train, y_train, x_test, y_test; see ``own_data`` for what they may hold."""
    found = _arrays(path, NPZ_KEYS, "stream.path")
    try:
        return own_data(*found, name=path.stem)
    except GradcastError as error:
        raise GradcastError(f"{path}: {error}") from None


def read_npz_pool(path: Path) -> Inputs:
    """Unlabelled images or feature vectors: the array x of an .npz file."""
    (found,) = _arrays(path, POOL_KEYS, "pool.path")
    return inputs(found, f"x in {path}")


def _arrays(path: Path, keys: Sequence[str], setting: str) -> list[np.ndarray]:
    if not path.is_file():
        raise GradcastError(f"{path} does not exist; set {setting} to an .npz file with {', '.join(keys)}")
    try:
        found = arrays.read_npz(path)
    except arrays.UNREADABLE as error:
        raise GradcastError(f"{path} is not a readable .npz file ({message_of(error)})") from None
    missing = [key for key in keys if key not in found]
    if missing:
        raise GradcastError(f"{path} has no array {missing[0]!r}; it must hold {', '.join(keys)}")
    return [found[key] for key in keys]


def own_data(x_train: Array, y_train: Labels, x_test: Array, y_test: Labels, *, name: str = "own") -> Source:
    """A source from arrays or tensors.

    Images are N x H x W, N x H x W x C or N x C x H x W with one or three channels, bytes or numbers from 0 to 1.
    Feature vectors are N x D, any real numbers; they are kept in float32.
    Labels are any whole numbers or words; the sorted ones of the training set become the classes.
    """
    labels, test_labels = _labels(y_train, "y_train"), _labels(y_test, "y_test")
    words = [part.dtype.kind == "U" for part in (labels, test_labels)]
    if words[0] != words[1]:
        kinds = ["words" if each else "whole numbers" for each in words]
        raise GradcastError(f"y_train holds {kinds[0]} and y_test {kinds[1]}; both must hold the same kind of labels")
    known = np.unique(labels)
    strangers = np.setdiff1d(test_labels, known)
    if len(strangers):
        raise GradcastError(f"label {strangers[0]} has test images but no training image; add some or remove it")
    untested = np.setdiff1d(known, test_labels)
    if len(untested) and len(test_labels):
        raise GradcastError(f"label {untested[0]} has training images but no test image; add some or remove it")
    train = Images(inputs(x_train, "x_train"), np.searchsorted(known, labels).astype(np.int64))
    test = Images(inputs(x_test, "x_test"), np.searchsorted(known, test_labels).astype(np.int64))
    return Source(name, train, test, tuple(str(label) for label in known), names_count=words[0])


def from_datasets(train: Dataset[Any], test: Dataset[Any], *, name: str = "own") -> Source:
    """A source from torch Datasets that yield (image, label): tensors, arrays or Pillow images."""
    parts = [_collected(dataset) for dataset in (train, test)]
    return own_data(*parts[0], *parts[1], name=name)


def inputs(values: Array, what: str = "the pool") -> Inputs:
    """Images of any accepted form as bytes, channel first; feature vectors as float32."""
    x = _array(values)
    return vectors(x, what) if x.ndim == 2 else pixels(x, what)


def pixels(values: Array, what: str = "the pool") -> Pixels:
    """Images of any accepted form as bytes, channel first."""
    x = _array(values)
    if x.ndim == 3:
        x = x[:, None]
    if not x.size:
        raise GradcastError(f"{what} is empty; give at least one image")
    if x.ndim != 4:
        raise GradcastError(f"{what} has shape {x.shape}; images are N x H x W, N x H x W x C or N x C x H x W")
    if x.shape[1] not in (1, 3) and x.shape[3] in (1, 3):
        x = x.transpose(0, 3, 1, 2)
    if x.shape[1] not in (1, 3):
        raise GradcastError(f"{what} has shape {x.shape}; images have one channel or three")
    if x.dtype == np.uint8:
        return np.ascontiguousarray(x)
    found = np.empty(x.shape, dtype=np.uint8)
    for start in range(0, len(x), CHUNK):  # a few at a time: they take eight times the memory
        part = x[start : start + CHUNK]
        if x.dtype.kind not in "fiub" or not np.isfinite(part).all() or part.min() < 0 or part.max() > 1:
            raise GradcastError(
                f"{what} holds {x.dtype} numbers outside 0 to 1; give bytes (uint8, 0 to 255) or numbers from 0 to 1"
            )
        found[start : start + CHUNK] = np.rint(part * 255.0)
    return found


def _collected(dataset: Dataset[Any]) -> tuple[np.ndarray, np.ndarray]:
    if not isinstance(dataset, Sized):
        raise GradcastError("a dataset of unknown length cannot be used; give one with __len__")
    pairs = [dataset[index] for index in range(len(dataset))]
    if not pairs:
        raise GradcastError("a dataset is empty; every split needs images")
    if not all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs):
        raise GradcastError("a dataset yields something else than pairs; give one of (image, label)")
    images = [_array(_plain_colours(x) if isinstance(x, Image.Image) else x) for x, _ in pairs]
    if len({image.shape for image in images}) > 1:
        raise GradcastError("the images of a dataset differ in shape; bring them to one size first")
    labels = [_array(y) for _, y in pairs]
    kinds = {label.dtype.kind if label.size == 1 else "" for label in labels}
    if not (kinds <= {"i", "u"} or kinds == {"U"}):
        raise GradcastError(
            "a dataset yields a label that is no whole number and no word, or some of each; number the classes"
        )
    return np.stack(images), np.array([label.item() for label in labels])


def _plain_colours(image: Image.Image) -> Image.Image:
    """Palettes, transparency and other colour spaces as RGB; grey stays."""
    return image if image.mode in ("1", "L", "I", "F", "RGB") or image.mode.startswith("I;") else image.convert("RGB")


def _labels(values: Labels, what: str) -> np.ndarray:
    labels = _array(values)
    if labels.dtype.kind == "O" and all(isinstance(label, str) for label in labels.flat):  # a column of pandas
        labels = labels.astype(np.str_)
    if labels.ndim != 1 or labels.dtype.kind not in "iuU":
        raise GradcastError(
            f"{what} has shape {labels.shape} and type {labels.dtype}; labels are a row of whole numbers or of words"
        )
    if labels.dtype.kind != "U":
        return labels.astype(np.int64)
    for word in np.unique(labels).tolist():
        if not word.strip() or not word.isprintable():
            raise GradcastError(f"{what} holds the label {word!r}; a label in words is printable and not empty")
    return labels


def _array(values: Any) -> np.ndarray:  # noqa: ANN401
    if not isinstance(values, torch.Tensor):
        return np.asarray(values)
    own = values.detach().cpu()
    return own.float().numpy() if own.dtype == torch.bfloat16 else own.numpy()
