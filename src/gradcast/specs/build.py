"""From a specification's names to the objects they mean; the one place that knows them all."""

from collections.abc import Callable, Sequence

import numpy as np
from torch import nn

from gradcast.data import blank
from gradcast.data.images import Pixels, Source, convert, fingerprint
from gradcast.data.load import Shelf, load_folder, load_pool, load_source
from gradcast.data.patches import patches
from gradcast.devices import Place
from gradcast.epochs.curriculum import Curriculum, Tasks
from gradcast.epochs.lessons import class_order
from gradcast.epochs.schedule import Schedule
from gradcast.errors import GradcastError
from gradcast.learners.registry import AclSpec, HatSpec, PnnSpec, learner
from gradcast.networks.acl_network import acl_network, residual_acl_network
from gradcast.networks.hat_network import HatNetwork
from gradcast.networks.pnn_network import pnn_network
from gradcast.networks.registry import AlexNetSpec, ModelSpec, SlimResNetSpec, network
from gradcast.randomness import seeded
from gradcast.replicas.heads import Heads
from gradcast.replicas.replicas import Replicas
from gradcast.signals import Draws
from gradcast.signals.registry import signal, views
from gradcast.specs.spec import Setting, StreamSpec
from gradcast.streams import scenarios
from gradcast.streams.held_out import HeldOut
from gradcast.streams.pool import TRANSFORMS, Pool, named, subset
from gradcast.streams.pool_tables import (
    BlankSpec,
    CallersPoolSpec,
    DatasetPoolSpec,
    FolderSpec,
    HeldOutSpec,
    PatchesSpec,
    PoolSpec,
)
from gradcast.streams.scale import reference_scale, scale_for
from gradcast.streams.stream import Stream
from gradcast.training.average import Average
from gradcast.training.evaluate import Evaluator
from gradcast.training.loop import Loop
from gradcast.training.step import Step


def stream(spec: StreamSpec, shelf: Shelf, source: Source | None = None) -> Stream:
    """The stream of labelled tasks; ``source`` where the images come from the caller."""
    found = _source(spec, shelf, source)
    match spec.scenario:
        case "rotated":
            tasks, width, facts = scenarios.rotated(found, spec.tasks, spec.data_seed)
        case "permuted":
            tasks, width, facts = scenarios.permuted(found, spec.tasks, spec.data_seed)
        case "split":
            per_task = None if spec.classes_per_task == "even" else spec.classes_per_task
            order = spec.class_order  # where each seed has its own, the first seed's is shown
            listed = class_order(0, len(found.classes)).tolist() if order == "seeded" else order
            tasks, width, facts = scenarios.split(
                found, spec.tasks, spec.data_seed, classes_per_task=per_task, class_order=listed
            )
    facts = {**facts, "classes": np.array(found.classes, dtype=np.str_)}
    samples = None if spec.samples == "all" else spec.samples
    for index, task in enumerate(tasks):
        if samples is not None and samples > len(task.train):
            raise GradcastError(
                f"task {index} has {len(task.train)} training images, stream.samples asks for {samples}; lower it"
            )
    scale = scale_for(spec.normalise, found.train.x)
    shape, steps = found.shape, named(spec.augment)
    if "rotate" in spec.augment and shape[1] != shape[2]:
        raise GradcastError(f"'rotate' needs square images, these have {shape[1]} x {shape[2]} pixels; set stream.size")
    content = fingerprint(found.train.x, found.train.y, found.test.x, found.test.y)
    return Stream(tasks, shape, width, facts, content, samples, spec.ratio, scale, steps)


def curriculum(spec: StreamSpec, schedule: Schedule, shelf: Shelf, source: Source | None = None) -> Curriculum:
    """The same where every seed has tasks of its own."""
    found = _source(spec, shelf, source)
    width = len(found.classes) // spec.tasks if spec.classes_per_task == "even" else spec.classes_per_task
    scale = scale_for(spec.normalise, found.train.x)
    content = fingerprint(found.train.x, found.train.y, found.test.x, found.test.y)
    return Curriculum(found, range(spec.tasks), width, schedule.validation, scale, content)


def _source(spec: StreamSpec, shelf: Shelf, source: Source | None) -> Source:
    size = None if spec.size == "own" else spec.size
    if source is not None:
        return source.converted(spec.colour, size)
    return load_source(spec.source, shelf, path=spec.path, size=size, colour=spec.colour, data_seed=spec.data_seed)


def pool(
    spec: PoolSpec, stream: Tasks, shelf: Shelf, place: Place, *, data_seed: int, images: Pixels | None = None
) -> Pool | HeldOut:
    """The pool of unlabelled images, in the stream's shape; ``images`` where they come from the caller."""
    transform = TRANSFORMS[spec.transform]
    shape = transform.shape(stream.shape)
    scale = stream.scale if spec.scale == "labelled" else reference_scale(stream.shape[0])
    steps = (*transform.pipeline(stream.shape), *named(spec.augment))
    if "rotate" in spec.augment and stream.shape[1] != stream.shape[2]:
        raise GradcastError("'rotate' needs square images; remove it from pool.augment or set stream.size")
    match spec:
        case HeldOutSpec():
            assert isinstance(stream, Stream)  # a setting sees to that
            return HeldOut(stream, scale, steps, device=place.device, dtype=place.dtype)
        case PatchesSpec():
            x = patches(shape, count=spec.count, data_seed=data_seed)
        case BlankSpec(name="grey"):
            x = blank.grey(shape, count=spec.count)
        case BlankSpec():
            x = blank.pixels(shape, count=spec.count, data_seed=data_seed)
        case FolderSpec():
            x = load_folder(spec.path, shape, shelf, squash=transform.squash)
        case DatasetPoolSpec():
            x = load_pool(spec.name, shape, shelf, squash=transform.squash, data_seed=data_seed)
        case CallersPoolSpec():
            if images is None:
                raise GradcastError("the pool 'python' is images that the caller of gradcast.run brings along")
            x = convert(images, shape, squash=transform.squash)
    return Pool(subset(x, spec.ratio, data_seed), scale, steps, device=place.device, dtype=place.dtype)


def loop(
    setting: Setting,
    stream: Stream,
    evaluator: Evaluator,
    pool: Pool | HeldOut | None,
    seeds: Sequence[int],
    place: Place,
) -> Loop:
    """Everything one row needs, for all seeds at once."""
    policy = setting.policy
    columns = heads(setting, stream)

    def another(purpose: str) -> Replicas:
        return model(setting.model, stream, columns, seeds, place, purpose)

    own_model = another("model")
    lr = setting.learner.lr
    own = learner(setting.learner, len(stream.tasks), classes=stream.width, seeds=seeds)
    found = signal(setting.signal, own_model, seeds, lr, lambda: another("teacher"), stream.scale, own)
    step = Step(own_model, own, lr, found, policy)
    draws = Draws(pool, policy, seeds, views(setting.signal)) if found is not None and pool is not None else None
    steps = setting.evaluation.average
    average = Average(own_model, steps) if steps > 1 else None
    return Loop(stream, step, evaluator, seeds, setting.stream.batch, setting.stream.epochs, draws, average)


def model(
    spec: ModelSpec, stream: Tasks, heads: Heads, seeds: Sequence[int], place: Place, purpose: str = "model"
) -> Replicas:
    """One network a seed, initialised from it and its purpose, stacked."""
    return replicas(lambda: network(spec, stream.shape, heads.outputs), heads, seeds, place, purpose)


def replicas(
    network: Callable[[], nn.Module], heads: Heads, seeds: Sequence[int], place: Place, purpose: str
) -> Replicas:
    """The same of networks that a function makes out of torch's random numbers."""
    modules: list[nn.Module] = []
    for seed in seeds:
        with seeded(seed, purpose):
            modules.append(network())
    named = "" if purpose == "model" else purpose
    return Replicas(
        modules, heads, device=place.device, dtype=place.dtype, inner=place.inner, seeds=seeds, purpose=named
    )


def module(setting: Setting, stream: Tasks) -> nn.Module:
    """One network of a setting, as torch's random numbers make it."""
    spec, own, shape, width = setting.model, setting.learner, stream.shape, stream.width
    if not isinstance(own, AclSpec | PnnSpec | HatSpec):
        return network(spec, shape, heads(setting, stream).outputs)
    options = {"private_width": own.private_width, "head_units": own.head_units} if isinstance(own, AclSpec) else {}
    if isinstance(spec, SlimResNetSpec):
        return residual_acl_network(shape, width, width=spec.width, **options)
    assert isinstance(spec, AlexNetSpec)  # a setting sees to that, and that other learners have no ResNet
    widths = [*spec.widths, spec.latent]
    match own:
        case PnnSpec():
            return pnn_network(shape, len(stream.tasks), width, channels=spec.channels, widths=widths)
        case HatSpec():
            return HatNetwork(width, shape=shape, channels=spec.channels, widths=widths, steepest=own.steepest)
        case AclSpec():
            return acl_network(shape, width, latent=spec.latent, widths=spec.widths, channels=spec.channels, **options)


def heads(setting: Setting, stream: Tasks) -> Heads:
    """Which columns of the output layer belong to a task."""
    if isinstance(setting.learner, AclSpec) and isinstance(setting.model, AlexNetSpec | SlimResNetSpec):
        return Heads(stream.width, extra=2 * setting.model.latent)
    if isinstance(setting.learner, HatSpec):
        return Heads(stream.width)  # the task's own
    return Heads(stream.width, len(stream.tasks), masked=setting.masked)
