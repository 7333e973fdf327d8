"""From a specification's names to the objects they mean; the one place that knows them all."""

from collections.abc import Sequence

from torch import nn

from gradcast.core import Learner, Signal
from gradcast.data.images import Pixels, Source, convert, fingerprint
from gradcast.data.load import Shelf, load_folder, load_pool, load_source
from gradcast.data.patches import patches
from gradcast.environment import Place
from gradcast.errors import GradcastError
from gradcast.evaluate import Evaluator
from gradcast.gradients.learner import GradientLearner
from gradcast.heads import Heads
from gradcast.learners import Finetune, Gem, dcl
from gradcast.loop import Loop
from gradcast.memory import TaskMemory
from gradcast.models import ModelSpec, network
from gradcast.randomness import seeded, torch_generator
from gradcast.replicas import Replicas
from gradcast.signals import Draws, Predicted
from gradcast.spec import (
    CallersPoolSpec,
    DatasetPoolSpec,
    DclSpec,
    FinetuneSpec,
    FolderSpec,
    GemSpec,
    NoSignalSpec,
    PatchesSpec,
    PoolSpec,
    PredictedSpec,
    Setting,
    StreamSpec,
)
from gradcast.step import Step
from gradcast.streams import scenarios
from gradcast.streams.pool import TRANSFORMS, Pool, named, subset
from gradcast.streams.scale import reference_scale, scale_for
from gradcast.streams.stream import Stream


def stream(spec: StreamSpec, shelf: Shelf, source: Source | None = None) -> Stream:
    """The stream of labelled tasks; ``source`` where the images come from the caller."""
    size = None if spec.size == "own" else spec.size
    if source is not None:
        found = source.converted(spec.colour, size)
    else:
        found = load_source(spec.source, shelf, path=spec.path, size=size, colour=spec.colour, data_seed=spec.data_seed)
    match spec.scenario:
        case "rotated":
            tasks, width, facts = scenarios.rotated(found, spec.tasks, spec.data_seed)
        case "permuted":
            tasks, width, facts = scenarios.permuted(found, spec.tasks, spec.data_seed)
        case "split":
            per_task = None if spec.classes_per_task == "even" else spec.classes_per_task
            tasks, width, facts = scenarios.split(
                found, spec.tasks, spec.data_seed, classes_per_task=per_task, class_order=spec.class_order
            )
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


def pool(
    spec: PoolSpec, stream: Stream, shelf: Shelf, place: Place, *, data_seed: int, images: Pixels | None = None
) -> Pool:
    """The pool of unlabelled images, in the stream's shape; ``images`` where they come from the caller."""
    transform = TRANSFORMS[spec.transform]
    shape = transform.shape(stream.shape)
    match spec:
        case PatchesSpec():
            x = patches(shape, count=spec.count, data_seed=data_seed)
        case FolderSpec():
            x = load_folder(spec.path, shape, shelf, squash=transform.squash)
        case DatasetPoolSpec():
            x = load_pool(spec.name, shape, shelf, squash=transform.squash, data_seed=data_seed)
        case CallersPoolSpec():
            if images is None:
                raise GradcastError("the pool 'python' is images that the caller of gradcast.run brings along")
            x = convert(images, shape, squash=transform.squash)
    scale = stream.scale if spec.scale == "labelled" else reference_scale(stream.shape[0])
    steps = (*transform.pipeline(stream.shape), *named(spec.augment))
    if "rotate" in spec.augment and stream.shape[1] != stream.shape[2]:
        raise GradcastError("'rotate' needs square images; remove it from pool.augment or set stream.size")
    return Pool(subset(x, spec.ratio, data_seed), scale, steps, device=place.device, dtype=place.dtype)


def loop(
    setting: Setting, stream: Stream, evaluator: Evaluator, pool: Pool | None, seeds: Sequence[int], place: Place
) -> Loop:
    """Everything one row needs, for all seeds at once."""
    policy = setting.policy
    columns = heads(setting, stream)
    replicas = model(setting.model, stream, columns, seeds, place)
    if any(isinstance(layer, nn.modules.batchnorm._BatchNorm) for layer in replicas.module.modules()):
        _check_batches(setting, stream)
    found = signal(setting, stream.width, seeds, place)
    step = Step(replicas, learner(setting, len(stream.tasks)), setting.learner.lr, found, policy)
    draws = Draws(pool, policy, seeds) if found is not None and pool is not None else None
    return Loop(stream, step, evaluator, seeds, setting.stream.batch, setting.stream.epochs, draws)


def model(spec: ModelSpec, stream: Stream, heads: Heads, seeds: Sequence[int], place: Place) -> Replicas:
    """One network a seed, initialised from it, stacked."""
    modules: list[nn.Module] = []
    for seed in seeds:
        with seeded(seed, "model"):
            modules.append(network(spec, stream.shape, heads.outputs))
    return Replicas(modules, heads, device=place.device, dtype=place.dtype, inner=place.inner, seeds=seeds)


def learner(setting: Setting, tasks: int) -> Learner:
    """The continual learner."""
    match setting.learner:
        case FinetuneSpec():
            return Finetune()
        case GemSpec() as spec:
            memories = TaskMemory(tasks, spec.memory)
            return Gem(memories, margin=spec.margin, qp_eps=spec.qp_eps, batchnorm=spec.batchnorm)
        case DclSpec() as spec:
            return dcl(
                TaskMemory(tasks, spec.memory),
                interval=spec.interval,
                sign=spec.sign,
                margin=spec.margin,
                qp_eps=spec.qp_eps,
                batchnorm=spec.batchnorm,
            )


def signal(setting: Setting, classes: int, seeds: Sequence[int], place: Place) -> Signal | None:
    """What turns unlabelled images into gradients, or None."""
    match setting.signal:
        case NoSignalSpec():
            return None
        case PredictedSpec() as spec:
            stacked = gradient_learner(spec, classes, seeds, place)
            random = [torch_generator(seed, "directions") for seed in seeds] if spec.directions == "random" else None
            return Predicted(stacked, directions=spec.directions, generators=random)


def gradient_learner(spec: PredictedSpec, classes: int, seeds: Sequence[int], place: Place) -> GradientLearner:
    """One h a seed, initialised from it, stacked."""

    def make(replicas: Sequence[int]) -> GradientLearner:
        return GradientLearner(
            classes,
            spec.hidden,
            alpha=spec.alpha,
            loss_scale=spec.loss_scale,
            objective=spec.objective,
            lr=None if spec.lr == "learner" else spec.lr,
            optimizer=spec.optimizer,
            tau=spec.tau,
            activation=spec.activation,
            bias=spec.bias,
            replicas=replicas,
        )

    stacked = make((len(seeds),))
    for replica, seed in enumerate(seeds):
        with seeded(seed, "gradient learner"):
            own = make(())
        for all_weights, weights in zip(stacked.parameters(), own.parameters(), strict=True):
            all_weights.data[replica] = weights.data
    return stacked.to(device=place.device, dtype=place.dtype)


def heads(setting: Setting, stream: Stream) -> Heads:
    choice = setting.model.heads
    masked = choice == "masked" or (choice == "auto" and setting.stream.scenario == "split")
    return Heads(stream.width, len(stream.tasks), masked=masked)


def _check_batches(setting: Setting, stream: Stream) -> None:
    """BatchNorm cannot normalise a single image."""
    batch = setting.stream.batch
    passes = {
        "stream.batch": min(
            min(count % batch or batch, count) for count in map(stream.count, range(len(stream.tasks)))
        ),
        "policy.batch": setting.policy.batch,
        "learner.memory": getattr(setting.learner, "memory", 2),
    }
    for key, smallest in passes.items():
        if smallest < 2:
            raise GradcastError(
                f"{key} leads to a pass of a single image, which BatchNorm cannot normalise; "
                "change it, or set model.name=mlp and model.norm=none"
            )
