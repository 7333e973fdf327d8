"""Small pools of every name in P1, and settings with which its rows train in a moment."""

from pathlib import Path

from tests.data.images import fill, tiny_imagenet
from tests.data.test_cifar import write_binary

SMALL = [
    "stream.source=digits",
    "stream.classes_per_task=2",
    "stream.samples=20",
    "model.name=mlp",
    "model.hidden=[8]",
    "head_start.batch=8",
]


def pools(data: Path) -> Path:
    """Photographs are random pixels as well; how many there are decides nothing."""
    tiny_imagenet(data, each=30)
    for name in ("coco", "cub", "cars"):
        fill(data / name, 9)
    write_binary(data, "cifar-10")
    return data
