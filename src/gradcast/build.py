"""From a specification's names to the objects they mean; the one place that knows them all."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from gradcast.core import Learner, Signal
from gradcast.errors import GradcastError
from gradcast.evaluate import Evaluator
from gradcast.gradients.learner import GradientLearner
from gradcast.heads import Heads
from gradcast.learners import Finetune, Gem, dcl
from gradcast.loop import Loop
from gradcast.memory import TaskMemory
from gradcast.networks import MLP
from gradcast.randomness import seeded, torch_generator
from gradcast.replicas import Replicas
from gradcast.signals import Draws, Predicted
from gradcast.spec import (
    DclSpec,
    FinetuneSpec,
    FolderSpec,
    GemSpec,
    ModelSpec,
    NoSignalSpec,
    PatchesSpec,
    PoolSpec,
    PredictedSpec,
    Setting,
    StreamSpec,
)
from gradcast.step import Step
from gradcast.streams.digits import digits
from gradcast.streams.mnist import mnist
from gradcast.streams.pool import Pool, Track, folder, patches
from gradcast.streams.scenarios import build as build_stream
from gradcast.streams.stream import Stream


@dataclass(frozen=True)
class Place:
    """Where a run happens: device and arithmetic, and the folder that holds datasets."""

    device: torch.device
    dtype: torch.dtype
    data: Path


def stream(spec: StreamSpec, data: Path) -> Stream:
    """The stream of labelled tasks."""
    source = digits(spec.data_seed) if spec.source == "digits" else mnist(data)
    return build_stream(
        source,
        spec.scenario,
        tasks=spec.tasks,
        classes_per_task=None if spec.classes_per_task == "even" else spec.classes_per_task,
        samples=None if spec.samples == "all" else spec.samples,
        data_seed=spec.data_seed,
    )


def pool(spec: PoolSpec, stream: Stream, place: Place, *, data_seed: int, track: Track) -> Pool:
    """The pool of unlabelled images, in the stream's shape."""
    match spec:
        case PatchesSpec():
            x = patches(stream.shape, count=spec.count, data_seed=data_seed)
        case FolderSpec():
            limit = None if spec.limit == "all" else spec.limit
            x = folder(stream.shape, _find(Path(spec.path), place.data), limit=limit, track=track)
    return Pool(x, scale=spec.scale, device=place.device, dtype=place.dtype)


def loop(
    setting: Setting, stream: Stream, evaluator: Evaluator, pool: Pool | None, seeds: Sequence[int], place: Place
) -> Loop:
    """Everything one row needs, for all seeds at once."""
    policy = setting.policy.policy()
    heads = _heads(setting, stream)
    network = model(setting.model, stream, heads, seeds, place)
    found = signal(setting, stream.width, seeds, place)
    step = Step(network, learner(setting, len(stream.tasks)), setting.learner.lr, found, policy)
    draws = Draws(pool, policy, seeds) if found is not None and pool is not None else None
    return Loop(stream, step, evaluator, seeds, setting.stream.batch, setting.stream.epochs, draws)


def model(spec: ModelSpec, stream: Stream, heads: Heads, seeds: Sequence[int], place: Place) -> Replicas:
    """One network a seed, initialised from it, stacked."""
    channels, height, width = stream.shape
    sizes = [channels * height * width, *spec.hidden, heads.outputs]
    modules: list[nn.Module] = []
    for seed in seeds:
        with seeded(seed, "model"):
            modules.append(MLP(sizes, norm=spec.norm))
    return Replicas(modules, heads, device=place.device, dtype=place.dtype)


def learner(setting: Setting, tasks: int) -> Learner:
    """The continual learner."""
    match setting.learner:
        case FinetuneSpec():
            return Finetune()
        case GemSpec(memory=memory, margin=margin, qp_eps=qp_eps):
            return Gem(TaskMemory(tasks, memory), margin=margin, qp_eps=qp_eps)
        case DclSpec() as spec:
            memories = TaskMemory(tasks, spec.memory)
            return dcl(memories, interval=spec.interval, sign=spec.sign, margin=spec.margin, qp_eps=spec.qp_eps)


def signal(setting: Setting, classes: int, seeds: Sequence[int], place: Place) -> Signal | None:
    """What turns unlabelled images into gradients, or None."""
    match setting.signal:
        case NoSignalSpec():
            return None
        case PredictedSpec() as spec:
            stacked = gradient_learner(spec, classes, seeds, place)
            random = [torch_generator(seed, "directions") for seed in seeds] if spec.directions == "random" else None
            return Predicted(stacked, directions=spec.directions, batchnorm=setting.policy.batchnorm, generators=random)


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


def _heads(setting: Setting, stream: Stream) -> Heads:
    choice = setting.model.heads
    masked = choice == "masked" or (choice == "auto" and setting.stream.scenario == "split")
    return Heads(stream.width, len(stream.tasks), masked=masked)


def _find(path: Path, data: Path) -> Path:
    """A relative path is looked up in the data folder, then in the working folder."""
    path = path.expanduser()
    places = [path] if path.is_absolute() else [data / path, path]
    for candidate in places:
        if candidate.is_dir():
            return candidate.resolve()
    tried = " nor ".join(str(candidate) for candidate in places)
    raise GradcastError(f"the pool's folder is not there: neither {tried}; set pool.path to a folder of images")
