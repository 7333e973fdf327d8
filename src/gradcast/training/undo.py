"""Steps that may be undone: where a step's numbers are not finite, all that trains is put back to what it was."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor, nn
from torch.optim import Optimizer

from gradcast.core import Metrics
from gradcast.memories.by_class import ClassMemory
from gradcast.memories.exemplars import Exemplars
from gradcast.memories.refilled import RefilledMemory
from gradcast.memories.reservoir import Reservoir
from gradcast.memories.ring import TaskMemory
from gradcast.runs.checkpoint.state import Checkpointed


class Undo:
    """What things that train looked like before a step, one entry a replica along the first axis."""

    def __init__(self, things: object, replicas: int) -> None:
        self.things, self.replicas = things, replicas
        self.before = {path: tensor.clone() for path, tensor in self._trained()}

    @torch.no_grad()
    def finite(self) -> Bool[Tensor, " r"]:
        """Replicas all of whose numbers are."""
        floats = [tensor.detach() for _, tensor in self._trained() if tensor.is_floating_point()]
        sums = [tensor.reshape(self.replicas, -1).sum(1, dtype=torch.float64) for tensor in floats]
        return torch.isfinite(torch.stack(sums)).all(0)

    @torch.no_grad()
    def put_back(self, spoiled: Bool[Tensor, " r"]) -> None:
        """Undo the step of these replicas; what was not there before it becomes zero."""
        if not spoiled.is_cuda and not spoiled.any():  # the host knows at once
            return
        for path, tensor in self._trained():
            old = self.before.get(path)
            which = spoiled.view(-1, *[1] * (tensor.dim() - 1))
            tensor.copy_(torch.where(which, torch.zeros_like(tensor) if old is None else old, tensor))

    def _trained(self) -> Iterator[tuple[str, Tensor]]:
        for path, tensor in _tensors(self.things, ""):
            if tensor.dim() and len(tensor) == self.replicas:
                yield path, tensor


def undoing(advance: Callable[[], Metrics], things: object, replicas: int) -> Metrics:
    """A step that is put back where its numbers are not finite, and says so: ``finite`` is of before."""
    undo = Undo(things, replicas)
    metrics = advance()
    finite = metrics["finite"] & undo.finite()
    undo.put_back(~finite)
    return metrics | {"finite": finite, "skipped": (~finite).to(torch.float64)}


def _tensors(value: object, path: str) -> Iterator[tuple[str, Tensor]]:
    """All that changes while training, found as checkpoints find it."""
    if isinstance(value, Tensor):
        yield path, value
    for name, entry in _entries(value).items():
        yield from _tensors(entry, f"{path}.{name}")


def _entries(value: object) -> Mapping[Any, object]:
    match value:
        case TaskMemory() | ClassMemory() | Reservoir() | RefilledMemory() | Exemplars():  # hold nothing that spreads
            return {}
        case Checkpointed():
            return {name: getattr(value, name) for name in value.checkpointed}
        case Optimizer():
            return dict(enumerate(value.state.values()))
        case nn.Module():
            return dict(value.state_dict())
        case dict():
            return value
        case list() | tuple():
            return dict(enumerate(value))
    return {}
