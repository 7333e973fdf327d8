"""Milliseconds a step of a head start: ours for one seed and for several at once, and the plain formulation."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from gradcast.bench.plain_head_start import PlainHeadStart, projection_head
from gradcast.bench.step_times import time_steps
from gradcast.data.stored_images import StoredImages
from gradcast.devices import Arithmetic, Place, free_memory
from gradcast.head_start.course import Course
from gradcast.head_start.head_start_table import ALONE, HeadStartSpec
from gradcast.head_start.make import replica_bytes
from gradcast.networks import SlimResNet18
from gradcast.randomness import numpy_generator, seeded, torch_generator
from gradcast.replicas.heads import Heads
from gradcast.streams.augment import augment
from gradcast.streams.named_augmentations import named
from gradcast.streams.pool import Pool
from gradcast.streams.scale import Scale
from gradcast.training.capture import fastest
from gradcast.training.grouping import SHARE

WIDTH, OUTPUTS, SIZE = 20, 10, 32  # of the slim ResNet-18; pixels a side
STEPS, SEEDS = 6_000, 10  # of the head starts whose time is foretold
BATCH = {"cpu": 16, "cuda": 512}
TIMED = {"cpu": 2, "cuda": 20}  # steps, at most
AT_ONCE = {"cpu": 2, "cuda": SEEDS}  # seeds
IMAGES = 10_000  # in the pool
ARITHMETIC: dict[str, tuple[Arithmetic, ...]] = {"cpu": ("float32",), "cuda": ("tf32", "bf16")}


@dataclass(frozen=True)
class HeadStartTime:
    """A step of so many seeds at once; the plain formulation has one seed."""

    dtype: Arithmetic
    seeds: int
    batch: int  # images of every seed, each in two views
    milliseconds: float
    plain_milliseconds: float  # measured in turn with ours

    @property
    def images_a_second(self) -> float:
        """Images of all seeds that pass in a second."""
        return 1000 * self.seeds * self.batch / self.milliseconds

    @property
    def plain_images_a_second(self) -> float:
        """Images that pass in a second in the plain formulation."""
        return 1000 * self.batch / self.plain_milliseconds

    @property
    def ratio(self) -> float:
        """How many times faster ours is, seed for seed."""
        return self.seeds * self.plain_milliseconds / self.milliseconds

    def hours(self, seeds: int = SEEDS, steps: int = STEPS) -> float:
        """Of so many head starts, in groups of those at once."""
        return -(-seeds // self.seeds) * steps * self.milliseconds / 3_600_000

    def plain_hours(self, seeds: int = SEEDS, steps: int = STEPS) -> float:
        """The same by the plain formulation, one seed after another."""
        return seeds * steps * self.plain_milliseconds / 3_600_000


def head_start_times(place: Place, dtype: Arithmetic, steps: int) -> list[HeadStartTime]:
    """One seed, and as many at once as the device has memory for; all formulations take turns."""
    kind = place.device.type
    steps, made = min(steps, TIMED[kind]), course(place, batch=BATCH[kind])
    fits = int(SHARE * free_memory(place.device)) // replica_bytes(made) - 2  # the two of one seed are there too
    counts = sorted({1, max(1, min(AT_ONCE[kind], fits))})
    plain, *ours = time_steps(place, steps, plain_steps(made), *(our_steps(made, count) for count in counts))
    return [
        HeadStartTime(dtype, count, made.spec.batch, own.milliseconds, plain.milliseconds)
        for count, own in zip(counts, ours, strict=True)
    ]


def course(place: Place, *, batch: int, width: int = WIDTH, size: int = SIZE, images: int = IMAGES) -> Course:
    """The default head start of the slim ResNet-18, on random images."""
    x = numpy_generator(0, "bench").integers(256, size=(images, 3, size, size), dtype=np.uint8)
    return Course(
        HeadStartSpec(steps=STEPS, batch=batch, probes=0),
        lambda: SlimResNet18(width, OUTPUTS),
        Heads.even(OUTPUTS),
        (3, size, size),
        Scale(),
        Pool(StoredImages.of(x), Scale(), place=place),
        place,
        "bench",
    )


def our_steps(made: Course, seeds: int) -> Callable[[int], bool]:
    """Our step as a run takes it, images drawn and augmented."""
    ours, used = made.prepare(range(seeds), None), np.ones(seeds, dtype=bool)
    advance = fastest(ours.step)

    def step(index: int) -> bool:
        ours.step.rate.fill_(made.spec.lr)
        advance(ours.batch, tuple(feed.batch(0, used) for feed in ours.feeds))
        return False

    return step


def plain_steps(made: Course) -> Callable[[int], bool]:
    """The plain step with the same augmentations."""
    place, pool, random, generator = made.place, made.pool, numpy_generator(0, "plain"), torch_generator(0, "plain")
    assert isinstance(pool, Pool)
    inner = place.inner if place.inner not in (None, place.dtype) else None
    plain, steps = plain_head_start(made, inner), named(ALONE.augment)
    images = torch.from_numpy(pool.stored.x).to(place.device)

    def views(chosen: Tensor) -> Tensor:
        return augment(chosen.unsqueeze(0), steps, [generator])[0]

    def step(index: int) -> bool:
        rows = torch.from_numpy(random.integers(len(pool), size=made.spec.batch)).to(place.device)
        chosen = images[rows].to(place.dtype) / 255
        plain.step(torch.cat([views(chosen), views(chosen)]))
        return False

    return step


def plain_head_start(made: Course, inner: torch.dtype | None = None) -> PlainHeadStart:
    """The plain formulation of the same, from the initial weights of seed 0."""
    spec = made.spec
    with seeded(0, "model"):
        network = made.network()
    features = network.get_submodule("linear").in_features
    assert isinstance(features, int)
    network.linear = nn.Identity()
    head = projection_head(features, ALONE.head)
    for module in (network, head):
        module.to(made.place.device, made.place.dtype)
    return PlainHeadStart(
        network,
        head,
        spec.steps,
        lr=spec.lr,
        momentum=spec.momentum,
        weight_decay=spec.weight_decay,
        warm_up=spec.warm_up,
        temperature=ALONE.temperature,
        weight=ALONE.weight,
        autocast=inner,
    )
