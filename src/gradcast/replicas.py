"""R copies of one network that train together: flat weights ``[R, P]``, stacked buffers, one forward pass for all."""

from collections.abc import Sequence
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.autograd import Function
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from gradcast.heads import Heads
from gradcast.passes.choice import Outputs, choose

# What BatchNorm does in a pass. update: batch statistics, folded into the running ones (the reference, everywhere).
# separate: batch statistics, running ones untouched. frozen: normalise with the running statistics, untouched.
Statistics = Literal["update", "separate", "frozen"]


class Replicas:
    """The model: weights and buffers of R replicas of one architecture.

    ``theta`` is the truth; each parameter is a view of it, so that learners and signals see one flat gradient a
    replica. Weights and buffers keep their place in memory: every update is made in place.
    """

    def __init__(
        self,
        modules: Sequence[nn.Module],
        heads: Heads,
        *,
        device: torch.device,
        dtype: torch.dtype,
        inner: torch.dtype | None = None,
    ) -> None:
        self.heads = heads
        self.inner = inner or dtype  # arithmetic between images and logits
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
        self.outputs: Outputs | None = None  # how passes are computed; known when the first images come

    @property
    def count(self) -> int:
        """Number of replicas."""
        return self.theta.shape[0]

    def parameters(self, theta: Float[Tensor, "*any p"]) -> dict[str, Tensor]:
        """Views of flat weights under the network's own names."""
        pieces: tuple[Tensor, ...] = Pieces.apply(theta, self.sizes)
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
        updating = _updating(statistics, used, self.theta)
        before = {} if updating is None else {name: buffer.clone() for name, buffer in self.buffers.items()}
        z = self._pass(theta.unsqueeze(1), x.flatten(0, 1)).unflatten(0, (self.count, -1))
        for name, old in before.items():
            assert updating is not None
            new = self.buffers[name]
            new.copy_(torch.where(updating.view(-1, *[1] * (old.dim() - 1)), new, old))
        return self.heads.columns(z, task)

    def step(self, gradient: Float[Tensor, "r p"], lr: float) -> None:
        """Plain SGD."""
        self.theta -= lr * gradient

    def task_gradients(
        self, x: Float[Tensor, "r k m *shape"], y: Int[Tensor, "r k m"], tasks: Int[Tensor, " k"]
    ) -> Float[Tensor, "r k p"]:
        """Gradient of each past task's mean loss on its memories, all tasks in one pass.

        Each task is normalised by its own batch statistics; the running statistics end where passes one after
        another, in the order of ``tasks``, would have left them.
        """
        self.module.train()
        theta = self.theta.detach().unsqueeze(1).expand(-1, len(tasks), -1).requires_grad_()
        z = self.heads.columns_at(self._pass(theta, x.flatten(0, 2)).unflatten(0, y.shape), tasks.unsqueeze(1))
        loss = cross_entropy(z.flatten(0, 2), y.flatten(), reduction="sum") / y.shape[2]
        return torch.autograd.grad(loss, theta)[0]

    @torch.no_grad()
    def classify(self, x: Float[Tensor, "n *shape"], tasks: Int[Tensor, " n"]) -> Int[Tensor, "r n"]:
        """Predicted class inside each image's task, for images all replicas share; nothing is updated."""
        self.module.eval()
        state = self.parameters(self.theta) | self.buffers
        own = [{name: value[replica] for name, value in state.items()} for replica in range(self.count)]
        outputs = (functional_call(self.module, each, (x,)) for each in own)
        return torch.stack([self.heads.columns_at(z, tasks).argmax(-1) for z in outputs])

    def _pass(self, theta: Float[Tensor, "r k p"], x: Tensor) -> Float[Tensor, "n c"]:
        if self.outputs is None:
            training = self.module.training
            self.outputs = choose(self.module, x)
            self.module.train(training)
        weights = self.parameters(theta)
        return self.outputs(self.module, weights, self.buffers, x.to(self.inner)).to(theta.dtype)


class Pieces(Function):
    """``theta.split(sizes, -1)``; the gradient is put together piece by piece (``cat`` of long rows takes ages)."""

    @staticmethod
    def forward(ctx: Any, theta: Tensor, sizes: list[int]) -> tuple[Tensor, ...]:
        """Views."""
        ctx.sizes = sizes
        return theta.split(sizes, dim=-1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        """Copies."""
        whole = gradients[0].new_empty(*gradients[0].shape[:-1], sum(ctx.sizes))
        for piece, gradient in zip(whole.split(ctx.sizes, dim=-1), gradients, strict=True):
            piece.copy_(gradient)
        return whole, None


def _updating(statistics: Statistics, used: Tensor | None, theta: Tensor) -> Bool[Tensor, " r"] | None:
    """Which replicas' running statistics a pass may change; None where that needs no looking after."""
    if statistics == "separate":
        return torch.zeros(len(theta), dtype=torch.bool, device=theta.device)
    return used if statistics == "update" else None


def _moved(buffer: Tensor, device: torch.device, dtype: torch.dtype) -> Tensor:
    return buffer.to(device=device, dtype=dtype) if buffer.is_floating_point() else buffer.to(device)
