"""Pools of unlabelled images by name: what a specification says of each."""

from typing import Annotated, Literal, get_args

from pydantic import Field, model_validator

from gradcast.specs.table import ImageCount, Place, Share, Table
from gradcast.streams.named_augmentations import AnyAugmentation
from gradcast.streams.own_pool import OwnPoolName
from gradcast.streams.pool import TransformName

PoolName = Literal[
    "tiny-imagenet", "coco", "cub", "aircraft", "cars",
    "digits", "mnist", "fashion-mnist", "cifar-10", "cifar-100", "svhn", "mini-imagenet",
]  # fmt: skip


class PoolTable(Table):
    """What every pool of unlabelled images has; they are brought to the stream's shape."""

    transform: TransformName = "plain"  # how images come to the stream's size; plain cuts to the middle
    augment: list[AnyAugmentation] = []  # after the transform
    scale: Literal["labelled", "reference"] = "labelled"  # reference: normalised as in the published code
    ratio: Share = 1.0  # share of the pool that may be drawn


class PatchesSpec(PoolTable):
    """Crops of two photographs that ship with scikit-learn."""

    name: Literal["patches"] = "patches"
    count: ImageCount = 2000  # images that are made


class BlankSpec(PoolTable):
    """Images that show nothing: each of one grey, or of random pixels."""

    name: Literal["grey", "pixels"]
    count: ImageCount = 2000  # images that are made


class FolderSpec(PoolTable):
    """Any folder or zip archive of images."""

    name: Literal["folder"]
    path: Place  # of the folder or archive


class NpzPoolSpec(PoolTable):
    """An .npz file with an array ``x`` of images or of feature vectors."""

    name: Literal["npz"]
    path: Place  # of the file


class DatasetPoolSpec(PoolTable):
    """A dataset by name, its labels ignored."""

    name: PoolName


class OwnPoolSpec(PoolTable):
    """The task's own images: those without a label (``stream.labels``), or those that the stream does not show."""

    name: OwnPoolName

    @model_validator(mode="after")
    def _as_they_are(self) -> "OwnPoolSpec":
        if self.transform != "plain" or self.ratio != 1:
            raise ValueError(
                f"the pool {self.name!r} is the stream's own images: leave pool.transform and pool.ratio out, and set "
                "stream.labels or stream.ratio"
            )
        return self


class CallersPoolSpec(PoolTable):
    """Images that the caller of ``gradcast.run`` brings along."""

    name: Literal["python"]


PoolSpec = Annotated[
    PatchesSpec | BlankSpec | FolderSpec | NpzPoolSpec | DatasetPoolSpec | OwnPoolSpec | CallersPoolSpec,
    Field(discriminator="name"),
]
POOLS: dict[str, type[Table]] = {
    "patches": PatchesSpec,
    "grey": BlankSpec,
    "pixels": BlankSpec,
    "folder": FolderSpec,
    "npz": NpzPoolSpec,
    **dict.fromkeys(get_args(PoolName), DatasetPoolSpec),
    **dict.fromkeys(get_args(OwnPoolName), OwnPoolSpec),
    "python": CallersPoolSpec,
}
