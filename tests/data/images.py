"""Small generated image collections for tests."""

import zipfile
from pathlib import Path

import numpy as np
from PIL import Image


def picture(seed: int, size: tuple[int, int] = (12, 12), *, grey: bool = False) -> Image.Image:
    """A random image of width x height."""
    shape = (size[1], size[0]) if grey else (size[1], size[0], 3)
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8))


def fill(
    folder: Path, count: int, *, suffix: str = ".png", size: tuple[int, int] = (12, 12), start: int = 0
) -> list[Path]:
    """So many images in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{start + number:03d}{suffix}" for number in range(count)]
    for number, path in enumerate(paths):
        picture(start + number, size).save(path)
    return paths


def tiny_imagenet(root: Path, classes: int = 3, each: int = 4, val: int = 2) -> Path:
    """The publisher's layout, small."""
    base = root / "tiny-imagenet-200"
    lines = []
    for label in range(classes):
        wnid = f"n0000000{label}"
        fill(base / "train" / wnid / "images", each, suffix=".JPEG", size=(64, 64), start=100 * label)
        for path in fill(base / "val" / "images", val, suffix=".JPEG", size=(64, 64), start=1000 + 10 * label):
            lines.append(f"{path.name}\t{wnid}\t0\t0\t62\t62")
    (base / "val" / "val_annotations.txt").write_text("\n".join(lines) + "\n")
    return base


def zipped(folder: Path, archive: Path) -> Path:
    """The folder as a zip archive with its own name on top."""
    with zipfile.ZipFile(archive, "w") as out:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                out.writestr(str(path.relative_to(folder.parent)), path.read_bytes())
    return archive
