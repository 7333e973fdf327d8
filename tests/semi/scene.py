"""Small models before a step, and loops on the digits that take seconds."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Literal

import numpy as np
import torch
from gradcast.semi.core import Moment, Part
from gradcast.semi.labels import choose_labelled
from gradcast.semi.loop import SemiLoop
from gradcast.semi.mean_teacher import MeanTeacher
from gradcast.semi.meta_fitness import MetaFitness
from gradcast.semi.meta_labels import MetaLabels
from gradcast.semi.mix_up import MixUp
from gradcast.semi.schedule import Schedule
from gradcast.semi.step import SemiStep
from gradcast.semi.supply import Supply
from torch import Tensor

from gradcast.core import Batch, Unlabelled
from gradcast.data.digits import digits
from gradcast.data.images import Source
from gradcast.gradients.gradient_learner import GradientLearner
from gradcast.gradients.sgd import Sgd
from gradcast.networks.mlp import MLP
from gradcast.randomness import seeded
from gradcast.replicas.heads import Heads
from gradcast.replicas.replicas import Replicas
from gradcast.streams.pool import Pool
from gradcast.streams.scale import scale_for
from gradcast.training.evaluate import Evaluator
from tests.helpers import CPU, batch, replicas

Method = Literal["supervised", "mg", "mg-predicted", "mean-teacher"]
SHORT = Schedule(steps=12, lr=0.05, warm_up=3, milestones=(9,), ramp=4, test_every=4)


def small_model(count: int = 2, first_seed: int = 0) -> Replicas:
    """BatchNorm, three classes, six numbers an image."""
    return replicas(count, norm="batch", first_seed=first_seed)


def images(model: Replicas, size: int = 4, *, views: int = 1, seed: int = 0) -> tuple[Batch, Unlabelled]:
    """A labelled batch and as many other images."""
    pool = batch(model, size=size * views, seed=100 + seed).x
    used = torch.ones(model.count, dtype=torch.bool)
    return batch(model, size=size, seed=seed), Unlabelled(pool, used, views)


def moment(model: Replicas, *, lr: float = 0.1, weight: float = 0.5, views: int = 1) -> Moment:
    """Before a step."""
    own, others = images(model, views=views)
    rates = torch.full((model.count,), lr, dtype=model.theta.dtype)
    return Moment(model, own, others, rates, torch.tensor(weight, dtype=model.theta.dtype))


def learner(count: int, classes: int = 3, alpha: float = 0.05, dtype: torch.dtype = torch.float64) -> GradientLearner:
    with seeded(0, "h"):
        return GradientLearner(classes, (8, 5), alpha=alpha, loss_scale=2.0, replicas=(count,)).to(dtype)


@cache
def source() -> Source:
    return digits(0)


def supply(
    seeds: Sequence[int], *, labels: int = 100, size: int = 64, dtype: torch.dtype = torch.float64, **how: int
) -> Supply:
    """The digits, so many of them labelled."""
    own = source()
    labelled = np.stack([choose_labelled(own.train.y, labels, seed, classes=own.classes) for seed in seeds])
    pool = Pool(own.train.x, scale_for("standard", own.train.x), device=CPU, dtype=dtype)
    return Supply(pool, own.train.y, labelled, seeds, batch=size, **how)


def loop(
    method: Method,
    seeds: Sequence[int] = (3, 4),
    schedule: Schedule = SHORT,
    *,
    size: int = 16,
    dtype: torch.dtype = torch.float64,
) -> SemiLoop:
    """A network of one hidden layer on the digits."""

    def network() -> Replicas:
        modules = []
        for seed in seeds:
            with seeded(seed, "model"):
                modules.append(MLP([64, 64, 10], norm="batch"))
        return Replicas(modules, Heads(10), device=CPU, dtype=dtype, seeds=seeds)

    model, parts, mix_up, judged = network(), list[Part](), None, None
    if method.startswith("mg"):
        labels = MetaLabels()
        parts, mix_up = [labels], MixUp(labels, 1.0, seeds)
    if method == "mg-predicted":
        parts.append(MetaFitness(learner(len(seeds), 10, 0.5, dtype)))
    if method == "mean-teacher":
        averaging = MeanTeacher(network(), model)
        parts, judged = [averaging], averaging.teacher
    extra = {"extra": size, "views": parts[0].views} if parts else {}
    step = SemiStep(model, schedule, Sgd(momentum=0.9, decay=1e-4), parts, mix_up)
    tests = Evaluator(
        [source().test], scale_for("standard", source().train.x), drop_last=False, device=CPU, dtype=dtype
    )
    return SemiLoop(supply(seeds, size=size, dtype=dtype, **extra), step, tests, seeds, judged)


def quick(steps: int, test_every: int) -> Schedule:
    """The published course in fewer steps."""
    return replace(Schedule().within(steps), test_every=test_every)


def errors(diary_rows: Sequence[Tensor]) -> Tensor:
    """In per cent, at the end."""
    return 100 * (1 - diary_rows[-1][:, 0])
