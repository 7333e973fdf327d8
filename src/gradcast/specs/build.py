"""From a setting to the objects it means: the one place that says how a row is built."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import nn

from gradcast.core import Learner
from gradcast.data import blank
from gradcast.data.images import Inputs, Shape, image_shape, is_vector
from gradcast.data.load import Shelf, load_folder, load_pool
from gradcast.data.own_images import read_npz_pool
from gradcast.data.patches import patches
from gradcast.data.stored_images import StoredImages
from gradcast.devices import Place
from gradcast.errors import GradcastError
from gradcast.learners.learner_entry import LearnerEntry
from gradcast.learners.registry import LEARNERS
from gradcast.networks.rates import rate_factors
from gradcast.networks.registry import network as plain_network
from gradcast.networks.staged import seen_through, split, weights_of
from gradcast.randomness import seeded
from gradcast.replicas.heads import Heads
from gradcast.replicas.replicas import Replicas
from gradcast.signals.pseudo import Attached
from gradcast.signals.registry import SIGNALS
from gradcast.signals.signal_entry import SignalEntry
from gradcast.signals.signal_table import SignalTable
from gradcast.specs.context import Context, Plan
from gradcast.specs.spec import Setting
from gradcast.specs.vector_rules import check_pool, like_the_stream
from gradcast.streams.draws import Draws, Feed, Views
from gradcast.streams.named_augmentations import named
from gradcast.streams.own_pool import OwnImages
from gradcast.streams.pool import TRANSFORMS, Pool, subset
from gradcast.streams.pool_tables import (
    BlankSpec,
    DatasetPoolSpec,
    FolderSpec,
    NpzPoolSpec,
    OwnPoolSpec,
    PatchesSpec,
    PoolSpec,
)
from gradcast.streams.scale import reference_scale
from gradcast.streams.stream import Stream
from gradcast.streams.task_data import TaskData
from gradcast.training.average import Average
from gradcast.training.evaluate import Tests, task_knowledge
from gradcast.training.loop import Loop
from gradcast.training.plateau import Plateau
from gradcast.training.schedule_tables import PlateauSpec, StepsSpec
from gradcast.training.schedules import Constant, Schedule, Steps
from gradcast.training.step import Step
from gradcast.training.trainer import StepTrainer, Trainer

Pools = Sequence[Pool | OwnImages]


def pool(
    spec: PoolSpec, stream: Stream, shelf: Shelf, place: Place, *, data_seed: int, images: Inputs | None = None
) -> Pool | OwnImages:
    """A pool of unlabelled images, in the stream's shape; ``images`` where they come from the caller."""
    if is_vector(stream.shape):
        check_pool(spec)
    transform = TRANSFORMS[spec.transform]
    shape = transform.shape(stream.shape)
    scale = stream.scale if spec.scale == "labelled" else reference_scale(stream.shape[0])
    steps = (*transform.pipeline(stream.shape), *named(spec.augment, stream.shape))
    if "rotate" in spec.augment and stream.shape[1] != stream.shape[2]:
        raise GradcastError("'rotate' needs square images; remove it from pool.augment or set stream.size")
    if isinstance(spec, OwnPoolSpec):
        own = stream.steps if spec.name == "unlabelled" and not spec.augment else steps
        return OwnImages(spec.name, stream, scale, own, place)
    stored = _unlabelled(spec, shape, shelf, data_seed=data_seed, images=images)
    return Pool(subset(stored, spec.ratio, data_seed), scale, steps, place=place)


def _unlabelled(spec: PoolSpec, shape: Shape, shelf: Shelf, *, data_seed: int, images: Inputs | None) -> StoredImages:
    """Images of a pool in this shape."""
    squash = TRANSFORMS[spec.transform].squash
    match spec:
        case PatchesSpec():
            return StoredImages.of(patches(shape, count=spec.count, data_seed=data_seed))
        case BlankSpec(name="grey"):
            return StoredImages.of(blank.grey(shape, count=spec.count))
        case BlankSpec():
            return StoredImages.of(blank.pixels(shape, count=spec.count, data_seed=data_seed))
        case FolderSpec():
            return load_folder(spec.path, shape, shelf, squash=squash)
        case DatasetPoolSpec():
            return load_pool(spec.name, shape, shelf, squash=squash, data_seed=data_seed)
        case NpzPoolSpec():
            images = read_npz_pool(shelf.find(spec.path, "pool.path"))
    if images is None:
        raise GradcastError("the pool 'python' is images that the caller of gradcast.run brings along")
    return StoredImages.of(like_the_stream(images, shape, squash=squash))


def loop(
    setting: Setting,
    data: TaskData,
    tests: Tests,
    pools: Pools,
    *,
    skips: bool = False,
    prepare: Callable[[Replicas], None] | None = None,
) -> Loop:
    """Everything one row needs, for all seeds of ``data`` at once; ``skips``: steps that are not finite are undone.

    ``prepare`` may change the model before anything is made of it: a head start.
    """
    trainer = _trainer(setting, data, skips=skips, prepare=prepare)
    steps = setting.evaluation.average
    average = Average(trainer.model, steps) if steps > 1 else None
    feeds = _feeds(setting, pools, data)
    draws = Draws(feeds, setting.policy, data.seeds, by_epoch=setting.plateau is not None) if feeds else None
    knowledge = task_knowledge(setting.evaluation.task, data.stream, trainer)
    return Loop(data, trainer, _schedule(setting, data, trainer, average), tests, draws, average, knowledge)


def _schedule(setting: Setting, data: TaskData, trainer: Trainer, average: Average | None) -> Schedule:
    batch, lr = setting.stream.batch, setting.learner.lr
    match setting.schedule:
        case StepsSpec() as spec:
            return Steps(data, spec, batch=batch, lr=lr)
        case PlateauSpec() as spec:
            return Plateau(data, trainer, spec, batch=batch, lr=lr, average=average)
        case _:
            return Constant(data, batch=batch, epochs=setting.stream.epochs, lr=lr)


def _trainer(setting: Setting, data: TaskData, *, skips: bool, prepare: Callable[[Replicas], None] | None) -> Trainer:
    stream, table, place = data.stream, setting.learner, data.place
    entry, columns = _entry(setting), heads(setting, stream)

    def make() -> nn.Module:
        return network(setting, stream)

    def attach(model: Replicas, another: Callable[[str], Replicas], learner: Learner | None = None) -> list[Attached]:
        context = _context(setting, data, model, make, another, learner)
        return [
            Attached(SIGNALS[own.name].build(own, context), feed, own.name)
            for own, feed in zip(setting.signals, feed_numbers(_viewed(setting)), strict=True)
        ]

    if entry.trainer is not None:
        plan = Plan(data.seeds, data, place, make, columns, setting.policy, setting.schedule, skips, attach)
        own: Trainer = entry.trainer(table, plan)
        return own

    def another(purpose: str) -> Replicas:
        return replicas(make, columns, data.seeds, place, purpose)

    model = another("model")
    if stream.scale.frozen is not None:
        model.frozen = weights_of(stream.scale.frozen)
    model.use_rates(rate_factors(setting.model.rates, model.names))
    if prepare is not None:
        prepare(model)
    context = _context(setting, data, model, make, another)
    learner: Learner = entry.build(table, context)
    step = Step(model, learner, table.lr, attach(model, another, learner), setting.policy, context.sgd(), skips)
    restarts, repeats = setting.plateau is not None, table.updates_a_batch
    return StepTrainer(step, learner.task_modules(), restarts=restarts, repeats=repeats)


def _context(
    setting: Setting,
    data: TaskData,
    model: Replicas,
    make: Callable[[], nn.Module],
    another: Callable[[str], Replicas],
    learner: Learner | None = None,
) -> Context:
    def epoch(task: int) -> int:
        steps = setting.schedule
        return steps.steps if isinstance(steps, StepsSpec) else data.length(task, setting.stream.batch)

    return Context(
        seeds=data.seeds,
        tasks=data.tasks,
        classes=data.stream.width,
        batch=setting.stream.batch,
        lr=setting.learner.lr,
        data=data,
        scale=data.stream.scale,
        shape=data.stream.scale.seen(data.stream.shape),
        model=model,
        network=make,
        another=another,
        epoch=epoch,
        schedule=setting.schedule,
        repeats=setting.stream.epochs * setting.learner.updates_a_batch,
        descent=setting.learner.descent,
        learner=learner,
    )


def _entry(setting: Setting) -> LearnerEntry:
    found = LEARNERS[setting.learner.name]
    assert isinstance(found, LearnerEntry)
    return found


def views(signal: SignalTable) -> Views:
    """What a signal wants to see of each unlabelled image."""
    found = SIGNALS[signal.name]
    return found.views(signal) if isinstance(found, SignalEntry) else Views()


FeedKey = tuple[int, Views]  # number of the pool, and what happens to its images, however often they are shown


def feeds_wanted(signals: Sequence[tuple[int, Views]]) -> dict[FeedKey, Views]:
    """Every feed's views, from each signal's pool and views: signals that want the same share one."""
    wanted: dict[FeedKey, Views] = {}
    for pool, own in signals:
        known = wanted.get(_feed_key(pool, own), own)
        wanted[_feed_key(pool, own)] = own if own.count > known.count else known
    return wanted


def feed_numbers(signals: Sequence[tuple[int, Views]]) -> list[int]:
    """Which feed each signal takes."""
    keys = list(feeds_wanted(signals))
    return [keys.index(_feed_key(pool, own)) for pool, own in signals]


def _feed_key(pool: int, views: Views) -> FeedKey:
    return pool, views if views.each else replace(views, count=1)


def _viewed(setting: Setting) -> list[tuple[int, Views]]:
    return [(setting.pool_of(signal.pool), views(signal)) for signal in setting.signals]


def _feeds(setting: Setting, pools: Pools, data: TaskData) -> list[Feed]:
    if not pools:
        return []
    return [
        Feed(pools[key[0]], data.seeds, setting.policy.batch, own, number=number, heads=data.heads)
        for number, (key, own) in enumerate(feeds_wanted(_viewed(setting)).items())
    ]


def replicas(make: Callable[[], nn.Module], heads: Heads, seeds: Sequence[int], place: Place, purpose: str) -> Replicas:
    """One network a seed, initialised from it and its purpose, stacked."""
    modules: list[nn.Module] = []
    for seed in seeds:
        with seeded(seed, purpose):
            modules.append(make())
    named = "" if purpose == "model" else purpose
    return Replicas(
        modules,
        heads,
        device=place.device,
        dtype=place.dtype,
        inner=place.inner,
        seeds=seeds,
        purpose=named,
        ranks=place.ranks,
    )


def network(setting: Setting, stream: Stream) -> nn.Module:
    """What is trained of a network: all of it, or what comes after its frozen stages."""
    whole, train = whole_network(setting, stream), setting.model.train
    return whole if train == "all" else split(whole, train, heads(setting, stream).outputs).trained


def seen_shape(setting: Setting, stream: Stream) -> tuple[int, ...]:
    """The shape of what the trained part of a network sees of an image."""
    train = setting.model.train
    if train == "all":
        return stream.shape
    frozen = split(whole_network(setting, stream), train, heads(setting, stream).outputs).frozen
    return tuple(seen_through(frozen, torch.zeros(1, *stream.shape)).shape[1:])


def whole_network(setting: Setting, stream: Stream) -> nn.Module:
    """One network of a setting, as torch's random numbers make it: the model's, or the learner's own."""
    entry, tasks = _entry(setting), len(stream.tasks)
    if entry.network is None:
        outputs = heads(setting, stream).outputs
        made = plain_network(setting.model, stream.shape, outputs)
        return made if entry.adapt is None else entry.adapt(setting.learner, made, outputs)
    shape = image_shape(stream.shape, f"the learner {setting.learner.name!r}", "choose another learner")
    return entry.network(setting.learner, setting.model, shape, stream.width, tasks)


def heads(setting: Setting, stream: Stream) -> Heads:
    """Which columns of the output layer belong to a task."""
    entry, tasks = _entry(setting), len(stream.tasks)
    if entry.heads is not None:
        return entry.heads(setting.learner, setting.model, stream.width, tasks)
    return Heads.of(stream.task_classes, setting.heads_kind(same_classes=stream.same_classes))
