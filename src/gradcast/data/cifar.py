"""CIFAR-10 and CIFAR-100: the python version (pickles) or the binary version."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8

from gradcast.data.images import Images, Source
from gradcast.data.limits import check_size, read_list
from gradcast.data.pickles import load_pickle
from gradcast.errors import GradcastError

PIXELS = 3 * 32 * 32


@dataclass(frozen=True)
class Layout:
    """File names of one version of one dataset, below its folder."""

    train: tuple[str, ...]
    test: tuple[str, ...]
    names: str  # file with the names of the classes
    labels: str  # python: key of the labels; binary: unused
    label_names: str
    label_bytes: int  # binary: bytes before the pixels, the last of which is the label


PYTHON = {
    "cifar-10": Layout(
        tuple(f"data_batch_{i}" for i in range(1, 6)), ("test_batch",), "batches.meta", "labels", "label_names", 0
    ),
    "cifar-100": Layout(("train",), ("test",), "meta", "fine_labels", "fine_label_names", 0),
}
BINARY = {
    "cifar-10": Layout(
        tuple(f"data_batch_{i}.bin" for i in range(1, 6)), ("test_batch.bin",), "batches.meta.txt", "", "", 1
    ),
    "cifar-100": Layout(("train.bin",), ("test.bin",), "fine_label_names.txt", "", "", 2),
}


def find_cifar(name: str, data: Path) -> tuple[Path, Layout] | None:
    """The folder of the python or else of the binary version, when all its files are there."""
    folders = {
        data / f"{name}-batches-py" if name == "cifar-10" else data / f"{name}-python": PYTHON[name],
        data / f"{name}-batches-bin" if name == "cifar-10" else data / f"{name}-binary": BINARY[name],
    }
    for folder, layout in folders.items():
        if all((folder / file).is_file() for file in (*layout.train, *layout.test, layout.names)):
            return folder, layout
    return None


def read_cifar(name: str, folder: Path, layout: Layout) -> Source:
    """All images with their fine labels, and the names of the classes."""
    names = _names(folder / layout.names, layout)
    read = _read_binary if layout.label_bytes else _read_python
    train, test = ([read(folder / file, layout) for file in files] for files in (layout.train, layout.test))
    return Source(name, _joined(train), _joined(test), names)


def _read_python(path: Path, layout: Layout) -> Images:
    content = _entries(path)
    if "data" not in content or layout.labels not in content:
        raise GradcastError(f"{path} has no entries 'data' and '{layout.labels}'; fetch it again")
    pixels, labels = content["data"], content[layout.labels]
    if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.shape[1:] != (PIXELS,):
        raise GradcastError(f"{path} holds no rows of {PIXELS} bytes; fetch it again")
    return Images(pixels.reshape(-1, 3, 32, 32), _labels(labels, path))


def _entries(path: Path) -> dict[object, Any]:
    """A pickled dict by names, whichever Python wrote it; nothing where it is something else."""
    content = load_pickle(path)
    if not isinstance(content, dict):
        return {}
    return {key.decode("latin1") if isinstance(key, bytes) else key: value for key, value in content.items()}


def _read_binary(path: Path, layout: Layout) -> Images:
    check_size(path)
    raw = np.fromfile(path, dtype=np.uint8)
    row = layout.label_bytes + PIXELS
    if raw.size == 0 or raw.size % row:
        raise GradcastError(f"{path} has {raw.size} bytes, not a whole number of {row}-byte rows; fetch it again")
    rows = raw.reshape(-1, row)
    labels = rows[:, layout.label_bytes - 1].astype(np.int64)
    return Images(np.ascontiguousarray(rows[:, layout.label_bytes :]).reshape(-1, 3, 32, 32), labels)


def _labels(labels: object, path: Path) -> np.ndarray:
    if not isinstance(labels, list) or not all(type(label) is int and label.bit_length() < 64 for label in labels):
        raise GradcastError(f"the labels in {path} are not a list of whole numbers; fetch it again")
    return np.array(labels, dtype=np.int64)


def _names(path: Path, layout: Layout) -> tuple[str, ...]:
    if layout.label_bytes:
        return tuple(name for line in read_list(path) for name in line.split())
    names = _entries(path).get(layout.label_names)
    if not isinstance(names, list):
        raise GradcastError(f"{path} has no entry '{layout.label_names}'; fetch it again")
    return tuple(name.decode(errors="replace") if isinstance(name, bytes) else str(name) for name in names)


def _joined(parts: list[Images]) -> Images:
    if len(parts) == 1:
        return parts[0]
    x: UInt8[np.ndarray, "n c h w"] = np.concatenate([part.x for part in parts])
    return Images(x, np.concatenate([part.y for part in parts]))
