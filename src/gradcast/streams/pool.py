"""Pools: unlabelled images brought to the stream's shape and scale."""

import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from gradcast.errors import GradcastError
from gradcast.randomness import numpy_generator
from gradcast.streams.stream import to_unit

# labelled: divided by 255 like the labelled images. reference: also normalised as the published code does, which
# labelled images are not.
Scale = Literal["labelled", "reference"]
REFERENCE_MEAN_STD = {1: ([0.5], [0.5]), 3: ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])}

Shape = tuple[int, int, int]
Track = Callable[[Iterable[Path], str], Iterable[Path]]  # wraps a long loop in a progress bar


class Pool:
    """Unlabelled images on the device, as bytes until they are asked for."""

    def __init__(
        self, x: UInt8[np.ndarray, "n c h w"], *, scale: Scale, device: torch.device, dtype: torch.dtype
    ) -> None:
        self.x = torch.from_numpy(np.ascontiguousarray(x)).to(device)
        self.device, self.dtype = device, dtype
        mean, std = REFERENCE_MEAN_STD[x.shape[1]] if scale == "reference" else ([0.0], [1.0])
        self.mean = torch.tensor(mean, device=device, dtype=dtype).view(-1, 1, 1)
        self.std = torch.tensor(std, device=device, dtype=dtype).view(-1, 1, 1)

    def __len__(self) -> int:
        return len(self.x)

    def images(self, index: Int[np.ndarray, "r u"]) -> Float[Tensor, "r u c h w"]:
        """These images, as the model sees them."""
        chosen = self.x[torch.from_numpy(index).to(self.device)]
        return (to_unit(chosen, self.dtype) - self.mean) / self.std


def patches(shape: Shape, *, count: int, data_seed: int) -> UInt8[np.ndarray, "n c h w"]:
    """Crops of scikit-learn's two sample photographs, one to four times the stream's size, scaled down to it."""
    from sklearn.datasets import load_sample_images  # here, not above: a second of start-up

    channels, height, width = shape
    photographs = [Image.fromarray(image) for image in load_sample_images().images]
    generator = numpy_generator(data_seed, "patches")
    crops = []
    for _ in range(count):
        photograph = photographs[generator.integers(len(photographs))]
        side = min(int(generator.uniform(1, 4) * max(height, width)), *photograph.size)
        left, top = (int(generator.integers(extent - side + 1)) for extent in photograph.size)
        crops.append(fit(photograph.crop((left, top, left + side, top + side)), (channels, height, width)))
    return np.stack(crops)


def folder(shape: Shape, path: Path, *, limit: int | None, track: Track) -> UInt8[np.ndarray, "n c h w"]:
    """Every image below a folder, in the order of paths; unreadable ones are skipped with a warning that names them."""
    if not path.is_dir():
        raise GradcastError(f"the pool's folder {path} does not exist; set pool.path to a folder of images")
    known = Image.registered_extensions()
    files = sorted(file for file in path.rglob("*") if file.suffix.lower() in known and file.is_file())
    if not files:
        raise GradcastError(f"the pool's folder {path} holds no image files; set pool.path to a folder of images")
    images = [image for file in track(files[:limit], "reading the pool") if (image := _read(file, shape)) is not None]
    if not images:
        raise GradcastError(
            f"none of the {len(files[:limit])} image files in {path} can be read; set pool.path to another folder"
        )
    return np.stack(images)


def fit(image: Image.Image, shape: Shape) -> UInt8[np.ndarray, "c h w"]:
    """An image cut to the middle and scaled (bilinear) to the stream's shape, grey where that has one channel."""
    channels, height, width = shape
    image = ImageOps.fit(image.convert("L" if channels == 1 else "RGB"), (width, height), Image.Resampling.BILINEAR)
    pixels = np.asarray(image)
    return pixels[None] if channels == 1 else pixels.transpose(2, 0, 1)


def _read(file: Path, shape: Shape) -> UInt8[np.ndarray, "c h w"] | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(file) as image:
                return fit(image, shape)
    except (
        OSError,
        UnidentifiedImageError,
        SyntaxError,
        ValueError,
        Image.DecompressionBombError,
        Image.DecompressionBombWarning,
    ) as error:
        warnings.warn(f"skipped {file}: {error}", stacklevel=2)
        return None
