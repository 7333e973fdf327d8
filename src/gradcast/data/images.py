"""Images as bytes, or feature vectors: the common currency of readers, scenarios and pools."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Float32, Int, Int64, UInt8
from torch.nn.functional import interpolate

from gradcast.data.class_counts import in_words
from gradcast.errors import GradcastError

Colour = Literal["own", "grey", "rgb"]
Shape = tuple[int, ...]  # channels, height, width of images; the length of feature vectors
ImageShape = tuple[int, int, int]
Pixels = UInt8[np.ndarray, "_n _c _h _w"]  # any images; a function may change number and shape
Vectors = Float32[np.ndarray, "_n _d"]
Features = Float[np.ndarray, "_n *_features"]  # vectors, or what frozen stages give for images
Inputs = Pixels | Features  # what a network learns from
CHUNK = 4_096  # images converted at once


@dataclass(frozen=True)
class Images:
    """Labelled images, channel first, 0 to 255; or labelled feature vectors."""

    x: Inputs
    y: Int64[np.ndarray, " labels"]  # as many as images, which is checked in words

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise GradcastError(f"{len(self.x)} images but {len(self.y)} labels; every image needs exactly one label")

    def __len__(self) -> int:
        return len(self.y)


@dataclass(frozen=True)
class Moments:
    """Sums of all values of each channel and of their squares, in whole numbers: no image is too small to count."""

    count: int  # of values in a channel
    total: tuple[int, ...]
    squares: tuple[int, ...]

    @classmethod
    def of(cls, x: Pixels) -> "Moments":
        """The sums over these images."""
        channels = x.shape[1]
        total = squares = np.zeros(channels, dtype=np.int64)
        for start in range(0, len(x), CHUNK):
            part = x[start : start + CHUNK].astype(np.int64)
            total, squares = total + part.sum((0, 2, 3)), squares + (part * part).sum((0, 2, 3))
        return cls(x.size // channels, tuple(total.tolist()), tuple(squares.tolist()))


@dataclass(frozen=True)
class Source:
    """A labelled dataset; class k is called ``classes[k]``.

    Where it comes from the cache, what it takes to go through all images is ``known``: a digest, and moments.
    """

    name: str
    train: Images
    test: Images
    classes: tuple[str, ...]
    known: tuple[str, Moments] | None = None
    names_count: bool = False  # names of classes are part of the content

    def __post_init__(self) -> None:
        for part, images in (("training", self.train), ("test", self.test)):
            if not images.x.size or not len(images):
                raise GradcastError(f"{self.name} has no {part} images")
            if images.y.min() < 0 or images.y.max() >= len(self.classes):
                raise GradcastError(
                    f"{self.name} has {part} labels from {images.y.min()} to {images.y.max()} but {len(self.classes)} "
                    f"classes; labels must lie between 0 and {len(self.classes) - 1}"
                )
        if self.train.x.shape[1:] != self.test.x.shape[1:]:
            raise GradcastError(
                f"{self.name} has training images of shape {self.train.x.shape[1:]} and test images of shape "
                f"{self.test.x.shape[1:]}; both must be the same"
            )

    @property
    def shape(self) -> Shape:
        """Channels, height, width; or the length of feature vectors."""
        return self.train.x.shape[1:]

    @property
    def content(self) -> str:
        """A digest of images and labels."""
        if self.known:
            return self.known[0]
        names = [np.array(self.classes)] if self.names_count else []
        return fingerprint(self.train.x, self.train.y, self.test.x, self.test.y, *names)

    @property
    def moments(self) -> Moments:
        """Sums over the training images."""
        return self.known[1] if self.known else Moments.of(self.train.x)

    def counts(self) -> dict[str, list[int]]:
        """How many images each class has, to train and to test on."""
        parts = {"train": self.train.y, "test": self.test.y}
        return {part: np.bincount(y, minlength=len(self.classes)).tolist() for part, y in parts.items()}

    def classes_in_words(self) -> str:
        """The classes with their numbers of images."""
        return in_words(self.classes, **self.counts())

    def converted(self, colour: Colour, size: int | None) -> "Source":
        """The same in grey or colour and at another size, where that is asked for."""
        if is_vector(self.shape):
            if colour != "own" or size is not None:
                raise GradcastError(
                    f"{self.name} holds feature vectors, which have no size and no colour; leave stream.size and "
                    "stream.colour out"
                )
            return self
        channels = {"own": self.shape[0], "grey": 1, "rgb": 3}[colour]
        shape = (channels, size or self.shape[1], size or self.shape[2])
        if shape == self.shape:
            return self
        train, test = (Images(convert(part.x, shape), part.y) for part in (self.train, self.test))
        return replace(self, train=train, test=test, known=None)


def is_vector(shape: Shape) -> bool:
    """Whether inputs of this shape are feature vectors and no images."""
    return len(shape) == 1


def image_shape(shape: Shape, who: str, remedy: str) -> ImageShape:
    """Channels, height and width; feature vectors are refused with the remedy."""
    if is_vector(shape):
        raise GradcastError(f"{who} takes images, and these are feature vectors; {remedy}")
    channels, height, width = shape
    return channels, height, width


def convert(x: Pixels, shape: Shape, *, squash: bool = False) -> Pixels:
    """Images in another colour and size: Pillow's weights for grey, bilinear with smoothing where they shrink.

    Other proportions are cut to the middle first, or ignored (squash), as when image files are decoded.
    """
    channels, height, width = shape
    out = np.empty((len(x), *shape), dtype=np.uint8)
    for start in range(0, len(x), CHUNK):
        part = _colour(x[start : start + CHUNK], channels)
        part = part if squash else _middle(part, height / width)
        if part.shape[2:] != (height, width):
            smooth = torch.from_numpy(np.array(part)).float()
            part = interpolate(smooth, (height, width), mode="bilinear", antialias=True).round().byte().numpy()
        out[start : start + CHUNK] = part
    return out


def _middle(x: Pixels, proportion: float) -> Pixels:
    """The largest window of this height over width in the middle."""
    height, width = x.shape[2:]
    tall, wide = min(height, max(round(width * proportion), 1)), min(width, max(round(height / proportion), 1))
    top, left = (height - tall) // 2, (width - wide) // 2
    return x[:, :, top : top + tall, left : left + wide]


def _colour(x: Pixels, channels: int) -> Pixels:
    if x.shape[1] == channels:
        return x
    if channels == 3:
        return np.repeat(x, 3, axis=1)
    red, green, blue = (x[:, plane].astype(np.uint32) for plane in range(3))
    return ((red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16).astype(np.uint8)[:, None]


def move_pixels(x: Inputs, origin: Int[np.ndarray, " pixels"] | None) -> Inputs:
    """Images with every pixel taken from its place of origin; -1 gives black, None leaves all where they are."""
    if origin is None:
        return x
    flat: Inputs = np.take(x.reshape(len(x), -1), np.maximum(origin, 0), axis=1)  # an index would turn rows to columns
    flat[:, origin < 0] = 0
    return flat.reshape(x.shape)


def fingerprint(*arrays: np.ndarray) -> str:
    """A name for the content of arrays, so that runs on different data never share a directory."""
    digest = hashlib.blake2b(digest_size=8)
    for array in arrays:
        digest.update(str((array.shape, array.dtype)).encode())
        for start in range(0, len(array), CHUNK):
            digest.update(np.ascontiguousarray(array[start : start + CHUNK]).data)
    return digest.hexdigest()


def fingerprint_of_parts(shape: tuple[int, ...], parts: Iterable[Inputs], dtype: type = np.uint8) -> str:
    """The fingerprint of images or vectors that come part by part and have this shape together."""
    digest = hashlib.blake2b(str((shape, np.dtype(dtype))).encode(), digest_size=8)
    for part in parts:
        digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()
