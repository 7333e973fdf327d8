"""A head start of less than a second."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gradcast.head_start.pretrain import pretrain
from gradcast.head_start.pretrained import Pretrained

NARROW = "model.width=2"


def images(count: int = 12, *, size: int = 8, grey: bool = False) -> np.ndarray:
    """Random ones, as bytes."""
    shape = (count, size, size) if grey else (count, size, size, 3)
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


def small(out: Path, *, pool: Any = None, settings: Sequence[str] = (NARROW,), **changes: Any) -> Pretrained:
    """Of a narrow ResNet on random images, unless it is said otherwise."""
    given: dict[str, Any] = {"steps": 4, "batch": 6, "size": 8, "device": "cpu", **changes}
    return pretrain(images() if pool is None else pool, out=out, settings=settings, **given)
