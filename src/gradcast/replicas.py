"""R copies of one network that train together: flat weights ``[R, P]``, stacked buffers, one forward pass for all."""

from collections.abc import Sequence
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy

from gradcast.heads import Heads

# What BatchNorm does in a pass. update: batch statistics, folded into the running ones (the reference, everywhere).
# separate: batch statistics, running ones untouched. frozen: normalise with the running statistics, untouched.
Statistics = Literal["update", "separate", "frozen"]


class Replicas:
    """The model: weights and buffers of R replicas of one architecture.

    ``theta`` is the truth; each parameter is a view of it, so that learners and signals see one flat gradient a
    replica.
    """

    def __init__(self, modules: Sequence[nn.Module], heads: Heads, *, device: torch.device, dtype: torch.dtype) -> None:
        self.heads = heads
        self.module = modules[0].to(device=device, dtype=dtype)  # the architecture; its own weights are never used
        self.names = [name for name, _ in self.module.named_parameters()]
        self.shapes = [parameter.shape for parameter in self.module.parameters()]
        self.sizes = [parameter.numel() for parameter in self.module.parameters()]
        flat = [torch.cat([p.detach().flatten() for p in module.parameters()]) for module in modules]
        self.theta: Float[Tensor, "r p"] = torch.stack([f.to(device=device, dtype=dtype) for f in flat])
        stacked = zip(*(module.named_buffers() for module in modules), strict=True)
        self.buffers: dict[str, Tensor] = {
            column[0][0]: torch.stack([_moved(buffer, device, dtype) for _, buffer in column]) for column in stacked
        }

    @property
    def count(self) -> int:
        """Number of replicas."""
        return self.theta.shape[0]

    def parameters(self, theta: Float[Tensor, "*any p"]) -> dict[str, Tensor]:
        """Views of flat weights under the network's own names."""
        pieces = theta.split(self.sizes, dim=-1)
        return {
            name: piece.view(*theta.shape[:-1], *shape)
            for name, piece, shape in zip(self.names, pieces, self.shapes, strict=True)
        }

    def logits(
        self,
        theta: Float[Tensor, "r p"],
        x: Float[Tensor, "r b *shape"],
        task: int,
        *,
        statistics: Statistics = "update",
        used: Bool[Tensor, " r"] | None = None,
    ) -> Float[Tensor, "r b c"]:
        """Logits of the task's columns in a training pass; replicas outside ``used`` keep their running statistics."""
        self.module.train(statistics != "frozen")
        aside = {name: buffer.clone() for name, buffer in self.buffers.items()}
        outputs: Tensor = vmap(self._call, randomness="different")(theta, aside, x)
        if statistics == "update" and self.buffers:
            self.buffers = aside if used is None else _where(used, aside, self.buffers)
        return self.heads.columns(outputs, task)

    def step(self, gradient: Float[Tensor, "r p"], lr: float) -> None:
        """Plain SGD."""
        self.theta = self.theta - lr * gradient

    def task_gradients(
        self, x: Float[Tensor, "r k m *shape"], y: Int[Tensor, "r k m"], tasks: Int[Tensor, " k"]
    ) -> Float[Tensor, "r k p"]:
        """Gradient of each past task's mean loss on its memories, all tasks in one call.

        Each task is normalised by its own batch statistics; the running statistics end where passes one after
        another, in the order of ``tasks``, would have left them.
        """
        self.module.train()
        aside = {name: _repeat(buffer, tasks.numel()) for name, buffer in self.buffers.items()}
        over_tasks = vmap(grad(self._loss), in_dims=(None, 0, 0, 0, 0), randomness="different")
        gradients: Tensor = vmap(over_tasks, in_dims=(0, 0, 0, 0, None), randomness="different")(
            self.theta, aside, x, y, tasks
        )
        self.buffers = {name: self._fold(name, aside[name]) for name in self.buffers}
        return gradients

    @torch.no_grad()
    def classify(self, x: Float[Tensor, "n *shape"], task: int) -> Int[Tensor, "r n"]:
        """Predicted class inside the task for images all replicas share; running statistics, nothing updated."""
        self.module.eval()
        outputs: Tensor = vmap(self._call, in_dims=(0, 0, None), randomness="different")(self.theta, self.buffers, x)
        return self.heads.columns(outputs, task).argmax(-1)

    def _call(self, theta: Tensor, buffers: dict[str, Tensor], x: Tensor) -> Tensor:
        outputs: Tensor = functional_call(self.module, (self.parameters(theta), buffers), (x,))
        return outputs

    def _loss(self, theta: Tensor, buffers: dict[str, Tensor], x: Tensor, y: Tensor, task: Tensor) -> Tensor:
        return cross_entropy(self.heads.columns_at(self._call(theta, buffers, x), task), y)

    def _fold(self, name: str, after: Shaped[Tensor, "r k *any"]) -> Shaped[Tensor, "r *any"]:
        """Running statistic after k passes in order, from k passes that each started at the present one.

        A pass maps ``s`` to ``(1 - m) s + m b``; from its result and ``s`` comes ``m b``, and the passes compose to a
        weighted sum.
        """
        before, momentum = self.buffers[name], _momentum(self.module, name)
        if not before.is_floating_point():  # num_batches_tracked counts
            return before + (after - before.unsqueeze(1)).sum(1)
        if momentum is None:  # not a running statistic: a constant of the network
            return after[:, -1]
        keep = 1 - momentum
        passes = after.shape[1]
        weights = keep ** torch.arange(passes - 1, -1, -1, dtype=before.dtype, device=before.device)
        added = after - keep * before.unsqueeze(1)
        return keep**passes * before + torch.einsum("k,rk...->r...", weights, added)


def _momentum(module: nn.Module, buffer: str) -> float | None:
    owner = module.get_submodule(buffer.rpartition(".")[0])
    momentum = getattr(owner, "momentum", None)
    return momentum if isinstance(momentum, float) else None


def _moved(buffer: Tensor, device: torch.device, dtype: torch.dtype) -> Tensor:
    return buffer.to(device=device, dtype=dtype) if buffer.is_floating_point() else buffer.to(device)


def _repeat(buffer: Tensor, times: int) -> Tensor:
    return buffer.unsqueeze(1).repeat_interleave(times, dim=1)


def _where(used: Tensor, new: dict[str, Tensor], old: dict[str, Tensor]) -> dict[str, Tensor]:
    return {k: torch.where(used.view(-1, *[1] * (new[k].dim() - 1)), new[k], old[k]) for k in old}
