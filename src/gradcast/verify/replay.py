"""Replays trajectories of the published reference implementation and measures how far ours is from them."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from pydantic import BaseModel, Field, ValidationError
from torch import Tensor, nn

from gradcast.core import Batch, Learner, Unlabelled
from gradcast.devices import choose_place
from gradcast.errors import GradcastError, message_of
from gradcast.gradients.gradient_learner import GradientLearner
from gradcast.learners.dcl import dcl
from gradcast.learners.ewc import Ewc
from gradcast.learners.finetune import Finetune
from gradcast.learners.gem import Gem
from gradcast.learners.icarl import Icarl
from gradcast.memories.ring import TaskMemory
from gradcast.networks import MLP, SlimResNet18
from gradcast.replicas.heads import Heads
from gradcast.replicas.replicas import Replicas
from gradcast.signals.predicted import Predicted
from gradcast.signals.pseudo import Attached
from gradcast.training.capture import fastest
from gradcast.training.step import Step
from gradcast.verify.acl_replay import replay_acl
from gradcast.verify.icarl_trace import compare_answers, compare_exemplars, recorded_learner, running_statistics
from gradcast.verify.trace import Arrays, Replay, Worst, load


class TraceConfig(BaseModel):
    """Hyper-parameters of a trace; what a learner does not use may be missing."""

    model: Literal["finetune", "gem", "dcl", "ewc", "icarl"]
    predicted: bool
    network: str
    tasks: int = Field(ge=1)
    classes_per_task: int = Field(ge=1)
    memories: int = Field(default=1, ge=1)
    margin: float = 0.0
    lr: float
    alpha: float = 0.0
    loss_scale: float = 1.0
    dcl_interval: int = 0
    reg: float = 0.0  # of EWC's penalty, or of iCaRL's distillation
    n_memories: int = Field(default=1, ge=1)  # images of a task that EWC looks at, exemplars of all classes of iCaRL
    softmax_axis: Literal["class", "batch"] = "class"  # of iCaRL's distillation
    dcl_sign: Literal[1, -1] = 1


def replay(path: Path, device: str = "cpu") -> Replay:
    """Feed a trace's batches to our step, in float64, from its initial weights; compare after every recorded step."""
    arrays, place = load(path), choose_place(device, "float64")
    try:
        if _method(arrays) == "acl":
            return replay_acl(path, arrays, place)
        config = TraceConfig.model_validate_json(str(arrays["config"]))
        return _replay(path, arrays, config, place.device)
    except KeyError as error:
        raise GradcastError(f"{path} has no entry {error}; it is not a complete trajectory") from None
    except ValidationError as error:
        first = error.errors()[0]
        raise GradcastError(
            f"the config of {path} is wrong at {'.'.join(map(str, first['loc']))!r}: {first['msg']}"
        ) from None
    except (RuntimeError, IndexError, ValueError, json.JSONDecodeError) as error:
        raise GradcastError(f"{path} does not fit together: {message_of(error)}") from None


def _replay(path: Path, arrays: Arrays, config: TraceConfig, device: torch.device) -> Replay:
    gradient_learner = _gradient_learner(arrays, config).to(device)
    step = _step(arrays, config, Predicted(gradient_learner) if config.predicted else None, device)
    advance = fastest(step)  # what a run takes
    worst = Worst()
    projected: list[int] = []
    seen: list[Batch] = []  # of the task under way
    for index in range(_steps(arrays)):
        key = f"{index:03d}"
        unlabelled: tuple[Unlabelled, ...] = ()
        if f"unlabelled/{key}" in arrays:
            images = _images(arrays[f"unlabelled/{key}"], step)
            unlabelled = (Unlabelled(images, torch.tensor([True], device=device)),)
        y = torch.from_numpy(arrays[f"y/{key}"]).long().unsqueeze(0).to(device)
        batch = Batch(_images(arrays[f"x/{key}"], step), y, int(arrays[f"task/{key}"]))
        if index and batch.task != seen[-1].task:
            _end_task(step, seen, arrays, worst)
            seen = []
        seen.append(batch)
        metrics = advance(batch, unlabelled)
        projected.append(int(metrics["projected"]))
        if "distillation" in metrics:
            told = config.reg * config.classes_per_task * arrays[f"distillation/{key}"].sum(keepdims=True)
            worst.add(metrics["distillation"], told, f"distillation in step {index}")
        worst.add(step.model.theta[0], arrays.get(f"params/{key}"), f"params after step {index}")
        worst.add(_flat(gradient_learner), arrays.get(f"learner/{key}"), f"learner after step {index}")
    running = any("running" in name for name in step.model.buffers)
    if isinstance(step.learner, Icarl):
        _end_task(step, seen, arrays, worst)
        for task in range(config.tasks):
            x = _images(arrays[f"test_x/{task}"], step)
            compare_answers(step.learner, step.model, x, task, arrays=arrays, worst=worst)
    elif running:
        worst.add(running_statistics(step.model), arrays.get("batchnorm_running"), "BatchNorm statistics")
    for index, (ours, theirs) in enumerate(zip(projected, arrays.get("projected", []), strict=False)):
        if ours != theirs and worst.difference != float("inf"):
            worst.difference, worst.where = float("inf"), f"projection in step {index}"
    return Replay(path, len(projected), worst.difference, worst.where, tolerance=1e-6 if running else 1e-9)


@dataclass(frozen=True)
class RecordedImages:
    """The labelled images of a task that is over, in the order of the file."""

    seen: list[Batch]

    @property
    def task(self) -> int:
        """The number of the task, from 0 on."""
        return self.seen[0].task

    def batches(self, size: int) -> Iterator[Batch]:
        """All of them together, cut anew."""
        x, y = torch.cat([each.x for each in self.seen], 1), torch.cat([each.y for each in self.seen], 1)
        for start in range(0, y.shape[1], size):
            yield Batch(x[:, start : start + size], y[:, start : start + size], self.task)


def _end_task(step: Step, seen: list[Batch], arrays: Arrays, worst: Worst) -> None:
    """The learner hears of it; importances and exemplars are compared."""
    learner, task = step.learner, seen[0].task
    before = learner.importance.clone() if isinstance(learner, Ewc) and learner.importance is not None else 0.0
    learner.task_ends(step.model, RecordedImages(seen))
    if isinstance(learner, Ewc):
        assert learner.importance is not None
        worst.add((learner.importance - before)[0], arrays.get(f"fisher/{task}"), f"importances of task {task}")
    if isinstance(learner, Icarl):
        x = torch.cat([batch.x[0] for batch in seen])
        compare_exemplars(learner, step.model, x, task, arrays=arrays, worst=worst)


def _method(arrays: Arrays) -> object:
    """Which learner the file is of, as far as it says."""
    config = json.loads(str(arrays["config"]))
    return config.get("model") if isinstance(config, dict) else None


def _steps(arrays: Arrays) -> int:
    steps = sum(key.startswith("x/") for key in arrays)
    if not steps or not any(key.startswith("params/") for key in arrays):
        raise KeyError("x/000" if not steps else "params/000")
    return steps


def _step(arrays: Arrays, config: TraceConfig, signal: Predicted | None, device: torch.device) -> Step:
    initial = [torch.from_numpy(arrays[key]).double() for key in sorted(arrays) if key.startswith("init/")]
    if not initial:
        raise KeyError("init/000")
    network = _network(config, initial)
    for parameter, value in zip(network.parameters(), initial, strict=True):
        parameter.data = value.view(parameter.shape)
    heads = Heads.even(config.classes_per_task, config.tasks, masked="masked" in config.network)
    model = Replicas([network], heads, device=device, dtype=torch.float64)
    return Step(model, _learner(arrays, config, heads), config.lr, () if signal is None else (Attached(signal),))


def _gradient_learner(arrays: Arrays, config: TraceConfig) -> GradientLearner:
    keys = sorted((key for key in arrays if key.startswith("learner_init/")), key=lambda key: int(key.split("/")[1]))
    if config.predicted and not keys:
        raise KeyError("learner_init/0")
    hidden = [arrays[key].shape[0] for key in keys[:-1]]
    classes = config.classes_per_task
    learner = GradientLearner(classes, hidden, alpha=config.alpha, loss_scale=config.loss_scale, replicas=(1,)).double()
    for weight, key in zip(learner.weights, keys, strict=False):
        weight.data = torch.from_numpy(arrays[key]).double().view(weight.shape)
    return learner


def _learner(arrays: Arrays, config: TraceConfig, heads: Heads) -> Learner:
    memory = TaskMemory(config.tasks, config.memories)
    match config.model:
        case "finetune":
            return Finetune()
        case "ewc":
            return Ewc(config.n_memories, config.reg)
        case "icarl":
            over_batch = config.softmax_axis == "batch"
            return recorded_learner(arrays, heads, size=config.n_memories, weight=config.reg, over_batch=over_batch)
        case "gem":
            return Gem(memory, margin=config.margin)
        case "dcl":
            return dcl(memory, interval=config.dcl_interval, sign=config.dcl_sign, margin=config.margin)


def _network(config: TraceConfig, initial: list[Tensor]) -> nn.Module:
    """The architecture follows from the shapes of its weights."""
    if config.network.startswith("mlp"):
        weights = [value for value in initial if value.dim() == 2]
        return MLP([weights[0].shape[1], *(weight.shape[0] for weight in weights)])
    if config.network.startswith("slim-resnet"):
        return SlimResNet18(initial[0].shape[0], initial[-1].shape[0])
    raise GradcastError(
        f"the trace's network {config.network!r} is not one that can be replayed; known: mlp, slim-resnet"
    )


def _images(array: np.ndarray, step: Step) -> Tensor:
    """Flat vectors, channel first, in the shape the network takes, for one replica."""
    x = torch.from_numpy(array).double().unsqueeze(0).to(step.model.theta.device)
    return x.unflatten(2, (3, 32, 32)) if isinstance(step.model.module, SlimResNet18) else x


def _flat(learner: GradientLearner) -> Tensor:
    return torch.cat([weight.detach()[0].flatten() for weight in learner.weights])
