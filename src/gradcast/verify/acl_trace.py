"""A trajectory of adversarial continual learning, and objects that hand its recorded choices to our own code."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from pydantic import BaseModel, Field
from torch import Tensor, nn

from gradcast.core import Feeds, Unlabelled
from gradcast.devices import Place
from gradcast.learners.acl.settings import PrivateInput
from gradcast.networks.acl_network import AclNetwork, Head, HeadPerTask, acl_network, linear_acl_network
from gradcast.signals.policy import Policy
from gradcast.streams.draws import Draws
from gradcast.streams.stream import Stream
from gradcast.streams.task_data import Portion, TaskData
from gradcast.verify.trace import Arrays

Count = Field(ge=1)


class AclConfig(BaseModel):
    """Hyper-parameters of a trace, under the reference's names; what only predicted gradients need may be missing."""

    model: Literal["acl"]
    predicted: bool
    network: str
    input: tuple[int, int, int]
    tasks: int = Count
    classes: int = Count
    batch: int = Count
    valid_batch: int = Count
    epochs: int = Count
    latent: int = Count
    units: int = Count  # of the discriminator
    adv: float
    orth: float
    lam: float
    e_lr: float
    e_wd: float
    mom: float
    d_lr: float
    d_wd: float
    s_step: int = Count
    d_step: int = Count
    lr_factor: float
    lr_min: float
    lr_patience: int = Count
    diff: Literal["yes", "no"]
    discriminator_scale: float
    chance_reset: bool
    idle_gradients: Literal["none", "zero"]
    dropout: float
    alpha: float = 0.0
    loss_scale: float = 1.0
    start: int = 0
    private_input: PrivateInput = "labelled"


class Departed(Exception):
    """Our run asks for something that the recorded one never came to."""


@dataclass(frozen=True)
class AclTrace:
    """One file; every tensor has one replica."""

    arrays: Arrays
    config: AclConfig
    place: Place

    @property
    def steps(self) -> int:
        """Labelled batches in all."""
        return len(self.arrays["steps/task"])

    @property
    def mixed(self) -> bool:
        """Whether images of earlier tasks are among those of a task."""
        return any((self.arrays[f"train_tt/{task}"] != task).any() for task in range(self.config.tasks))

    def weights(self, prefix: str) -> dict[str, Tensor]:
        """All weights under a prefix, by the reference's names and in its order."""
        keys = sorted(key for key in self.arrays if key.startswith(f"{prefix}/"))
        if not keys:
            raise KeyError(f"{prefix}/000")
        return {key.rsplit("/", 1)[1]: self.tensor(key) for key in keys}

    def tensor(self, key: str) -> Tensor:
        """One array in double precision, on the device."""
        return torch.from_numpy(self.arrays[key]).to(self.place.device, self.place.dtype)

    def names(self, task: int) -> list[str]:
        """Weights that our model holds during a task, in its order: shared module, private module, head."""
        names = [key.split("/", 2)[2] for key in sorted(self.arrays) if key.startswith("init/")]
        return [name for name in names if self._held(name, task)]

    def _held(self, name: str, task: int) -> bool:
        """Whether a weight belongs to the shared module or to this task's own ones."""
        number = name.removeprefix("private.task_out.").removeprefix("head.").split(".")[0]
        match name.split(".")[0]:
            case "shared":
                return True
            case "private":
                return int(number) // (1 if self.config.network == "mlp" else 2) == task  # convolutions, linear layer
            case _:
                return int(number) == task or self.mixed

    def network(self, weights: dict[str, Tensor], task: int) -> AclNetwork:
        """Our network with these weights; its sizes follow from their shapes."""
        own = {name: weights[name] for name in self.names(task)}
        made = _linear(self.config, own) if self.config.network == "mlp" else _alexnet(self.config, own)
        if self.mixed:
            made = AclNetwork(made.shared, made.private, _heads(self.config, own))
        for parameter, value in zip(made.parameters(), own.values(), strict=True):
            parameter.data = value.view(parameter.shape)
        for layer in made.modules():
            if isinstance(layer, nn.Dropout):
                layer.p = self.config.dropout
        return made


def _sorted(weights: dict[str, Tensor]) -> list[list[Tensor]]:
    """Weights without biases of the shared module, of the private one and of the head."""
    return [
        [value for name, value in weights.items() if name.startswith(part) and name.endswith("weight")]
        for part in ("shared.", "private.", "head.")
    ]


def _heads(config: AclConfig, weights: dict[str, Tensor]) -> HeadPerTask:
    units = _sorted(weights)[2][0].shape[0]
    return HeadPerTask([Head(config.latent, config.classes, units) for _ in range(config.tasks)])


def _linear(config: AclConfig, weights: dict[str, Tensor]) -> AclNetwork:
    shared, _, head = _sorted(weights)
    widths = [value.shape[0] for value in shared[:-1]]
    units = head[0].shape[0]
    return linear_acl_network(config.input, config.classes, latent=config.latent, widths=widths, head_units=units)


def _alexnet(config: AclConfig, weights: dict[str, Tensor]) -> AclNetwork:
    shared, private, head = _sorted(weights)
    return acl_network(
        config.input,
        config.classes,
        latent=config.latent,
        widths=[value.shape[0] for value in shared if value.dim() == 2][:-1],
        channels=[value.shape[0] for value in shared if value.dim() == 4],
        private_width=private[0].shape[0],
        head_units=head[0].shape[0],
    )


class RecordedNetworks:
    """Makes networks with the weights that the file has for the next occasion: a task, or a restart in the first."""

    def __init__(self, trace: AclTrace) -> None:
        self.trace = trace
        again = sorted({"/".join(key.split("/")[:2]) for key in trace.arrays if key.startswith("restart/")})
        first = [("init", 0), *((prefix, 0) for prefix in again)]
        self.coming: Iterator[tuple[str, int]] = iter(
            [*first, *((first[-1][0], task) for task in range(1, trace.config.tasks))]
        )
        self.latest: dict[str, Tensor] = {}  # weights of all tasks as they were made last

    def __call__(self) -> AclNetwork:
        """The network that the file has next: of the start, a restart or a task."""
        prefix, task = next(self.coming, ("", 0))
        if not prefix:
            raise Departed("a restart that the file does not have")
        self.latest = self.trace.weights(prefix)
        return self.trace.network(self.latest, task)


class RecordedJudgeDraws:
    """The discriminator's initial weights, and noise in the order of its steps."""

    def __init__(self, trace: AclTrace) -> None:
        self.trace, self.drawn = trace, 0

    def layers(self, task: int, sizes: Sequence[tuple[int, int]], *, again: bool) -> list[Tensor]:
        """Weight and bias side by side."""
        arrays, prefix = self.trace.arrays, f"discriminator_init/{task}"
        if again:
            found = {key.split("/")[1] for key in arrays if key.startswith("restart_discriminator/")}
            own = sorted(batch for batch in found if arrays["steps/task"][int(batch)] == task)
            if not own:
                raise Departed(f"a restart of the discriminator in task {task} that the file does not have")
            prefix = f"restart_discriminator/{own[0]}"
        flat = list(self.trace.weights(prefix).values())
        return [torch.cat([flat[i], flat[i + 1][:, None]], dim=1)[None] for i in range(0, len(flat), 2)]

    def noise(self, name: str, size: tuple[int, int], like: Tensor) -> Float[Tensor, "r b f"]:
        """The noise of the discriminator's next update."""
        batch, number = divmod(self.drawn, self.trace.config.d_step)
        self.drawn += 1
        return torch.from_numpy(self.trace.arrays[f"noise/{batch:03d}"][number : number + 1]).to(like.dtype)


class RecordedData(TaskData):
    """The file's images, in the order in which its batches had them."""

    def __init__(self, trace: AclTrace) -> None:
        self.trace = trace
        classes = [tuple(range(trace.config.classes))] * trace.config.tasks
        super().__init__(Stream.without_images(trace.config.input, classes), [0], trace.place)

    def count(self, task: int) -> int:
        """Training images of the task."""
        return len(self.trace.arrays[f"train_y/{task}"])

    def train(self, task: int) -> Portion:
        """Images to train on."""
        return self._recorded("train", task)

    def validation(self, task: int) -> Portion:
        """Images that were set aside."""
        return self._recorded("valid", task)

    def test(self, task: int) -> Portion:
        """The test images of a task."""
        return self._recorded("test", task)

    def epoch(self, task: int, epoch: int) -> Portion:
        """In this epoch's order."""
        steps = self.trace.arrays
        own = np.flatnonzero((steps["steps/task"] == task) & (steps["steps/epoch"] == epoch))
        if not len(own):
            raise Departed(f"an epoch {epoch} of task {task}, before which the recorded training ends")
        order = np.concatenate([self.trace.arrays[f"rows/{number:03d}"] for number in own])
        return self.train(task).ordered(order[None])

    def _recorded(self, part: str, task: int) -> Portion:
        trace = self.trace
        y = torch.from_numpy(trace.arrays[f"{part}_y/{task}"]).to(trace.place.device)
        index = torch.arange(len(y), device=y.device)
        tasks = torch.from_numpy(trace.arrays[f"{part}_tt/{task}"]).to(y.device)[None] if trace.mixed else None
        return Portion(trace.tensor(f"{part}_x/{task}"), index[None], y[None], task, tasks)


class RecordedDraws(Draws):
    """The pool batch of every update, one after another, used by our rule of when one is."""

    def __init__(self, trace: AclTrace) -> None:
        super().__init__([], Policy(start=trace.config.start), [0], by_epoch=True)
        self.trace = trace

    def begin(self, task: int) -> None:
        """The file's draws go on through all tasks."""

    def next(self, task: int, place: int = 0, going: Tensor | None = None) -> Feeds:
        """What was drawn for the next update, unless it came too early."""
        drawn = self._recorded()
        return () if place < self.policy.start else drawn

    def _recorded(self) -> Feeds:
        batch, update = divmod(self.step, self.trace.config.s_step)
        self.step += 1
        rows = self.trace.arrays[f"pool_rows/{batch:03d}"][update]
        rows = rows[rows >= 0]
        config = self.trace.config
        other = len(rows) != len(self.trace.arrays[f"rows/{batch:03d}"])
        if not len(rows) or (config.private_input == "unlabelled" and other):
            return ()  # the reference uses no batch of another size; our option for it has no such rule
        x = self.trace.tensor("pool_x")[torch.from_numpy(rows)]
        return (Unlabelled(x[None], torch.tensor([True], device=x.device), drawing=(0,)),)
