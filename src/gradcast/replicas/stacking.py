"""Networks of one architecture, stacked: what they must have in common, and their weights in one row each."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd import Function

from gradcast.errors import GradcastError


def stacked_weights(
    modules: Sequence[nn.Module], device: torch.device, dtype: torch.dtype
) -> tuple[Float[Tensor, "r p"], dict[str, Tensor]]:
    """Flat weights, and buffers under their names, of all networks."""
    _check_alike(modules)
    flat = [torch.cat([p.detach().flatten() for p in module.parameters()]) for module in modules]
    buffers = {
        column[0][0]: torch.stack([_moved(buffer, device, dtype) for _, buffer in column])
        for column in zip(*(module.named_buffers() for module in modules), strict=True)
    }
    return torch.stack([row.to(device=device, dtype=dtype) for row in flat]), buffers


def trained(module: nn.Module) -> Float[Tensor, " p"] | None:
    """One for weights that are trained and zero for those that ask for no gradient; None where all are trained."""
    if all(parameter.requires_grad for parameter in module.parameters()):
        return None
    return torch.cat([torch.full_like(p.detach().flatten(), float(p.requires_grad)) for p in module.parameters()])


class Pieces(Function):
    """``theta.split(sizes, -1)``; the gradient is put together piece by piece (``cat`` of long rows takes ages)."""

    @staticmethod
    def forward(ctx: Any, theta: Tensor, sizes: list[int]) -> tuple[Tensor, ...]:
        """Views of ``theta``, without a copy."""
        ctx.sizes = sizes
        pieces: tuple[Tensor, ...] = theta.split(sizes, dim=-1)
        return pieces

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        """Copy the gradients of all pieces into one tensor."""
        whole = gradients[0].new_empty(*gradients[0].shape[:-1], sum(ctx.sizes))
        for piece, gradient in zip(whole.split(ctx.sizes, dim=-1), gradients, strict=True):
            piece.copy_(gradient)
        return whole, None


def _check_alike(modules: Sequence[nn.Module]) -> None:
    """One module's code runs for all replicas: what is neither weight nor buffer must be the same in all."""
    for name, layer in modules[0].named_modules():
        for key, value in vars(layer).items():
            others = [vars(module.get_submodule(name)).get(key) for module in modules[1:]]
            if isinstance(value, Tensor) and not all(
                isinstance(other, Tensor) and torch.equal(other.cpu(), value.cpu()) for other in others
            ):
                where = f"{type(modules[0]).__name__}.{name}.{key}" if name else f"{type(modules[0]).__name__}.{key}"
                raise GradcastError(
                    f"{where} is a tensor that differs from seed to seed and is no parameter or buffer; register it "
                    "with register_buffer"
                )


def _moved(buffer: Tensor, device: torch.device, dtype: torch.dtype) -> Tensor:
    return buffer.to(device=device, dtype=dtype) if buffer.is_floating_point() else buffer.to(device)
