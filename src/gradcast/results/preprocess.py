"""Images of any kind as a trained network takes them: colour, size and scale of the images it was trained on.

Feature vectors are only scaled.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from PIL import Image
from torch import Tensor

from gradcast.data.files import fit, open_image
from gradcast.data.images import Pixels, Shape, Vectors, convert, is_vector, move_pixels
from gradcast.data.own_images import inputs, pixels
from gradcast.errors import GradcastError
from gradcast.streams.scale import Scale

AnyImage = Image.Image | np.ndarray | Tensor | str | PathLike[str]
AnyImages = AnyImage | Sequence[AnyImage]
CHANNELS = (1, 3)


@dataclass(frozen=True)
class Preprocess:
    """``preprocess(images)`` gives floats ``[n, channels, height, width]``, or vectors ``[n, length]``, on the CPU.

    ``shape`` and ``scale`` are those of the training images. ``origins`` says for every task where each pixel comes
    from, where the tasks of the stream are rotations or permutations.
    """

    shape: Shape
    scale: Scale
    origins: Sequence[Int[np.ndarray, " pixels"]] = field(default=(), repr=False)

    def __call__(self, images: AnyImages, task: int | None = None) -> Float[Tensor, "n *shape"]:
        """Convert one image or several.

        Args:
            images: the path of an image file, a Pillow image, an array or a tensor, or a list of these. Arrays hold
                bytes (0 to 255) or numbers from 0 to 1. Two axes are one grey image. Three axes are one image if the
                first or the last has the length 1 or 3 (the channels), and grey images otherwise. Four axes are images,
                channels first or last. Where the network was trained on feature vectors: one of them, or rows of them.
            task: number of a task. Where tasks rotate or permute the pixels, the same is done to these images. None
                leaves the pixels where they are.
        """
        own = self._vectors(images) if is_vector(self.shape) else self._bytes(images)
        x = move_pixels(own, self._origin(task))
        return self.scale(torch.from_numpy(x), torch.float32)

    def _vectors(self, given: object) -> Vectors:
        if not isinstance(given, np.ndarray | Tensor) or given.ndim not in (1, 2) or given.shape[-1:] != self.shape:
            what = tuple(given.shape) if isinstance(given, np.ndarray | Tensor) else type(given).__name__
            raise GradcastError(
                f"the network was trained on vectors of {self.shape[0]} numbers and is given {what}; give an array of "
                "one vector, or of one a row"
            )
        return inputs(given[None] if given.ndim == 1 else given, "the array of vectors")

    def _bytes(self, images: object) -> Pixels:
        if isinstance(images, str | PathLike):
            images = open_image(Path(images))
        if isinstance(images, Image.Image):
            return np.array(fit(images, self.shape))[None]
        if isinstance(images, list | tuple):
            if not images:
                raise GradcastError("the list of images is empty; give at least one image")
            return np.concatenate([self._bytes(image) for image in images])
        if not isinstance(images, np.ndarray | Tensor):
            raise GradcastError(
                f"a {type(images).__name__} is no image; give the path of an image file, a Pillow image, an array or a "
                "tensor"
            )
        one = images.ndim == 2 or (images.ndim == 3 and (images.shape[0] in CHANNELS or images.shape[-1] in CHANNELS))
        return convert(pixels(images[None] if one else images, "the array of images"), self.shape)

    def _origin(self, task: int | None) -> Int[np.ndarray, " pixels"] | None:
        if task is None or not self.origins:
            return None
        if not 0 <= task < len(self.origins):
            raise GradcastError(f"there is no task {task}; tasks are 0 to {len(self.origins) - 1}")
        return self.origins[task]
