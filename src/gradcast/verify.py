"""Replays trajectories of the published reference implementation and measures how far ours is from them."""

import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from pydantic import BaseModel, Field, ValidationError
from torch import Tensor, nn

from gradcast.core import Batch, Learner, Unlabelled
from gradcast.errors import GradcastError
from gradcast.gradients.learner import GradientLearner
from gradcast.heads import Heads
from gradcast.learners import Finetune, Gem, dcl
from gradcast.memory import TaskMemory
from gradcast.networks import MLP
from gradcast.replicas import Replicas
from gradcast.signals import Predicted
from gradcast.step import Step

Arrays = Mapping[str, np.ndarray]


class TraceConfig(BaseModel):
    """Hyper-parameters of a trace; what a learner does not use may be missing."""

    model: Literal["finetune", "gem", "dcl"]
    predicted: bool
    network: str
    tasks: int = Field(ge=1)
    classes_per_task: int = Field(ge=1)
    memories: int = Field(default=1, ge=1)
    margin: float = 0.0
    lr: float
    alpha: float = 0.0
    loss_scale: float = 1.0
    learner_hidden: list[int] = []
    dcl_interval: int = 0
    dcl_sign: Literal[1, -1] = 1


@dataclass(frozen=True)
class Replay:
    """How one trace went."""

    path: Path
    steps: int
    difference: float  # largest relative difference of all compared weights and statistics
    where: str  # where it is
    tolerance: float

    @property
    def agrees(self) -> bool:
        """Whether the difference stays within the tolerance (not a number does not)."""
        return self.difference <= self.tolerance


def replay(path: Path) -> Replay:
    """Feed a trace's batches to our step, in float64, from its initial weights; compare after every recorded step."""
    arrays = _load(path)
    try:
        config = TraceConfig.model_validate_json(str(arrays["config"]))
        return _replay(path, arrays, config)
    except KeyError as error:
        raise GradcastError(f"{path} has no entry {error}; it is not a complete trajectory") from None
    except ValidationError as error:
        first = error.errors()[0]
        raise GradcastError(
            f"the config of {path} is wrong at {'.'.join(map(str, first['loc']))!r}: {first['msg']}"
        ) from None
    except (RuntimeError, IndexError, ValueError, json.JSONDecodeError) as error:
        raise GradcastError(f"{path} does not fit together: {str(error).splitlines()[0]}") from None


def _replay(path: Path, arrays: Arrays, config: TraceConfig) -> Replay:
    step, signal = _build(arrays, config)
    worst, where = 0.0, "nowhere"
    projected: list[int] = []
    steps = sum(key.startswith("x/") for key in arrays)
    if not steps:
        raise KeyError("x/000")
    for index in range(steps):
        key = f"{index:03d}"
        unlabelled = None
        if f"unlabelled/{key}" in arrays:
            unlabelled = Unlabelled(_replica(arrays[f"unlabelled/{key}"], step), torch.tensor([True]))
        y = torch.from_numpy(arrays[f"y/{key}"]).long().unsqueeze(0)
        metrics = step(Batch(_replica(arrays[f"x/{key}"], step), y, int(arrays[f"task/{key}"])), unlabelled)
        projected.append(int(metrics["projected"]))
        ours = {"params": step.model.theta[0], "learner": _flat(signal.learner)}
        for name, value in ours.items():
            if f"{name}/{key}" in arrays:
                found = _relative(value, arrays[f"{name}/{key}"])
                if not found <= worst:
                    worst, where = found, f"{name} after step {index}"
    if "batchnorm_running" in arrays:
        running = [b[0].flatten() for name, b in step.model.buffers.items() if "running" in name]
        found = _relative(torch.cat(running), arrays["batchnorm_running"])
        if not found <= worst:
            worst, where = found, "BatchNorm statistics"
    if "projected" in arrays and projected != list(arrays["projected"]):
        first = next(i for i, (a, b) in enumerate(zip(projected, arrays["projected"], strict=True)) if a != b)
        worst, where = float("inf"), f"projection in step {first}"
    return Replay(path, steps, worst, where, tolerance=1e-6 if step.model.buffers else 1e-9)


def _build(arrays: Arrays, config: TraceConfig) -> tuple[Step, Predicted]:
    initial = [torch.from_numpy(arrays[key]) for key in sorted(k for k in arrays if k.startswith("init/"))]
    network = _network(config, initial)
    masked = "masked" in config.network
    heads = Heads(config.classes_per_task, config.tasks, masked=masked)
    for parameter, value in zip(network.parameters(), initial, strict=True):
        parameter.data = value.to(torch.float64)
    model = Replicas([network], heads, device=torch.device("cpu"), dtype=torch.float64)
    learner = GradientLearner(
        config.classes_per_task, config.learner_hidden, alpha=config.alpha, loss_scale=config.loss_scale, replicas=(1,)
    ).double()
    for index, weight in enumerate(learner.weights):
        weight.data = torch.from_numpy(arrays[f"learner_init/{index}"]).unsqueeze(0)
    signal = Predicted(learner)
    return Step(model, _learner(config), config.lr, signal if config.predicted else None), signal


def _learner(config: TraceConfig) -> Learner:
    memory = TaskMemory(config.tasks, config.memories)
    match config.model:
        case "finetune":
            return Finetune()
        case "gem":
            return Gem(memory, margin=config.margin)
        case "dcl":
            return dcl(memory, interval=config.dcl_interval, sign=config.dcl_sign, margin=config.margin)


def _network(config: TraceConfig, initial: list[Tensor]) -> nn.Module:
    if not config.network.startswith("mlp"):
        raise GradcastError(f"the trace's network {config.network!r} is not one that can be replayed; known: mlp")
    weights = [value for value in initial if value.dim() == 2]
    return MLP([weights[0].shape[1], *(weight.shape[0] for weight in weights)])


def _load(path: Path) -> dict[str, Any]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            return dict(archive)
    except FileNotFoundError:
        raise GradcastError(f"{path} does not exist") from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, AttributeError) as error:
        raise GradcastError(f"{path} is not a readable .npz trajectory ({error})") from None


def _replica(array: np.ndarray, step: Step) -> Tensor:
    return torch.from_numpy(array).to(step.model.theta.dtype).unsqueeze(0)


def _flat(learner: GradientLearner) -> Tensor:
    return torch.cat([weight.detach()[0].flatten() for weight in learner.weights])


def _relative(ours: Tensor, theirs: np.ndarray) -> float:
    other = torch.from_numpy(theirs).double()
    if ours.shape != other.shape:
        raise ValueError(f"{tuple(other.shape)} weights recorded where the network has {tuple(ours.shape)}")
    return float((ours - other).abs().max() / other.abs().max().clamp_min(1e-300))
