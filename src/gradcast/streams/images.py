"""Images as bytes: the common currency of sources, scenarios and pools."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int, Int64, UInt8

from gradcast.errors import GradcastError


@dataclass(frozen=True)
class Images:
    """Labelled images, channel first, 0 to 255."""

    x: UInt8[np.ndarray, "n c h w"]
    y: Int64[np.ndarray, " labels"]  # as many as images, which is checked in words

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise GradcastError(f"{len(self.x)} images but {len(self.y)} labels; every image needs exactly one label")

    def __len__(self) -> int:
        return len(self.y)

    def only(self, classes: list[int]) -> "Images":
        """The images of these classes, labelled by their place in the list."""
        place = {label: index for index, label in enumerate(classes)}
        kept = np.isin(self.y, classes)
        return Images(self.x[kept], np.array([place[label] for label in self.y[kept]], dtype=np.int64))


@dataclass(frozen=True)
class Source:
    """A labelled dataset."""

    name: str
    train: Images
    test: Images
    classes: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height, width."""
        channels, height, width = self.train.x.shape[1:]
        return channels, height, width


def move_pixels(
    x: UInt8[np.ndarray, "n c h w"], origin: Int[np.ndarray, " pixels"] | None
) -> UInt8[np.ndarray, "n c h w"]:
    """Images with every pixel taken from its place of origin; -1 gives black, None leaves all where they are."""
    if origin is None:
        return x
    flat = x.reshape(len(x), -1)[:, np.maximum(origin, 0)]
    flat[:, origin < 0] = 0
    return flat.reshape(x.shape)
