"""Network and pool of a head start alone, and that they fit."""

import os
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from gradcast.data.images import Shape
from gradcast.data.load import Shelf
from gradcast.data.own_images import pixels
from gradcast.devices import Place
from gradcast.errors import GradcastError
from gradcast.head_start.callers_network import callers_network
from gradcast.head_start.course import Course
from gradcast.head_start.pretrain_options import PretrainOptions, model_table, pool_table
from gradcast.networks import registry as networks
from gradcast.networks.featured import Featured
from gradcast.networks.normalisation import needs_several
from gradcast.replicas.heads import Heads
from gradcast.specs import build
from gradcast.streams.named_augmentations import all_named_by, named
from gradcast.streams.pool import Pool
from gradcast.streams.scale import scale_for
from gradcast.streams.stream import Stream

PoolImages = str | os.PathLike[str] | np.ndarray | Tensor
Model = str | nn.Module | Callable[..., object]


def pretrain_course(
    pool: PoolImages, model: Model, options: PretrainOptions, shelf: Shelf, place: Place, *, outputs: int
) -> Course:
    """Everything that a head start needs, checked before anything is trained."""
    if outputs < 1:
        raise GradcastError(f"outputs = {outputs} is not valid; give 1 or more")
    given = pool_table(os.fspath(pool), shelf) if isinstance(pool, str | os.PathLike) else {"name": "python"}
    setting = options.setting(given, model_table(model) if isinstance(model, str) else None)
    shape: Shape = (3 if options.colour == "rgb" else 1, options.size, options.size)
    scale = scale_for(setting.stream.normalise, shape[0])
    if isinstance(model, str):
        unseen: object = networks.unseen(setting.model)

        def network() -> nn.Module:
            return networks.network(setting.model, shape, outputs)
    else:
        own = callers_network(model, shape, outputs)
        network, outputs, unseen = own.make, own.outputs, own.identity
    spec = setting.head_start
    named(all_named_by(*spec.signal), shape)  # augmentations of one's own are tried
    _check_network(network, shape, outputs, passing=spec.batch * min(build.views(own).count for own in spec.signal))
    stream = Stream.without_images(shape, [tuple(range(outputs))], scale)
    images = None if isinstance(pool, str | os.PathLike) else pixels(pool)
    found = build.pool(setting.pool[0], stream, shelf, place, data_seed=0, images=images)
    assert isinstance(found, Pool)
    if len(found) < spec.batch:
        count = "a single image" if len(found) == 1 else f"{len(found):,} images"
        remedy = "give more images" + ("" if len(found) == 1 else ", or lower --batch")
        raise GradcastError(f"the pool has {count} and a batch needs {spec.batch:,}; {remedy}")
    drawn = setting.pool[0].model_dump_json(exclude={"path"})  # a folder is known by its images
    identity = repr((scale, shape, drawn, found.content, unseen))
    return Course(spec, network, Heads.even(outputs), shape, scale, found, place, identity)


def _check_network(network: Callable[[], nn.Module], shape: Shape, outputs: int, *, passing: int) -> None:
    """It ends in a linear layer, and its BatchNorm layers see more than one value a channel."""
    with torch.random.fork_rng(devices=[]):  # a trial leaves the caller's random numbers alone
        made = network()
    images = torch.rand(2, *shape, generator=torch.Generator().manual_seed(0))
    Featured(made, outputs).check(images.to(next(made.parameters()).dtype))
    if passing < 2 and needs_several(made, shape):
        raise GradcastError("--batch 1 is a pass of a single image, which BatchNorm cannot normalise; raise it")
