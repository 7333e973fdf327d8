"""All passes of all replicas as one batch: the fast way, for networks of linear, convolution and BatchNorm layers.

The network's own ``forward`` runs once, on the images of all passes along one axis. Functions that take weights are
replaced, while it runs, by layers that keep the weight gradients of the passes apart.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import batch_norm, linear
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import arg_tree_leaves

from gradcast.networks.norm import batch_norm_relu
from gradcast.passes.layers import Convolution, Linear
from gradcast.passes.norm import fold_in, norm_relu, normalised


class UnfoldableError(Exception):
    """The network uses its weights in a way that has no folded layer."""


def outputs(
    module: nn.Module,
    weights: Mapping[str, Float[Tensor, "r k ..."]],
    buffers: Mapping[str, Tensor],
    x: Tensor,
) -> Float[Tensor, "n c"]:
    """The network's outputs for ``x [R * K * M, *shape]``; buffers ``[R, ...]`` are updated in place."""
    if x.is_cuda and x.dim() == 4:
        x = x.contiguous(memory_format=torch.channels_last)
    with Folding(weights):
        found: Tensor = functional_call(module, (dict(weights), dict(buffers)), (x,))
    passes = next(iter(weights.values())).shape[1]
    for name, buffer in buffers.items():
        if name.endswith("num_batches_tracked") and module.training:
            buffer.add_(passes - 1)  # the module itself counted one
    return found


class Folding(TorchFunctionMode):
    """While it is on, functions that take weights take folded ones."""

    def __init__(self, weights: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.weights = {id(weight) for weight in weights.values()}
        self.layers: dict[object, Callable[..., Tensor]] = {
            linear: self._linear,
            torch.conv2d: self._convolution,
            batch_norm: self._batch_norm,
            batch_norm_relu: self._batch_norm_relu,
        }

    def __torch_function__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Ours for layers, the ordinary one for functions without weights, none for other functions of weights."""
        layer = self.layers.get(func)
        if layer is not None:
            return layer(*args, **(kwargs or {}))
        if any(id(leaf) in self.weights for leaf in arg_tree_leaves(*args, **(kwargs or {}))):
            raise UnfoldableError(getattr(func, "__name__", str(func)))
        return func(*args, **(kwargs or {}))

    def _linear(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        folded: Tensor = Linear.apply(x, weight, bias)
        return folded

    def _convolution(
        self,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:
        if isinstance(padding, str):
            raise UnfoldableError("conv2d with padding by name")
        options = (_pair(stride), _pair(padding), _pair(dilation), groups)
        folded: Tensor = Convolution.apply(x, weight, bias, options)
        return folded

    def _batch_norm(
        self,
        x: Tensor,
        mean: Tensor | None,
        var: Tensor | None,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        training: bool = False,
        momentum: float = 0.1,
        eps: float = 1e-5,
    ) -> Tensor:
        return self._norm(x, None, mean, var, weight, bias, training, momentum, eps, relu=False)

    def _batch_norm_relu(
        self,
        x: Tensor,
        skip: Tensor | None,
        mean: Tensor | None,
        var: Tensor | None,
        weight: Tensor | None,
        bias: Tensor | None,
        training: bool,
        momentum: float,
        eps: float,
    ) -> Tensor:
        return self._norm(x, skip, mean, var, weight, bias, training, momentum, eps, relu=True)

    def _norm(
        self,
        x: Tensor,
        skip: Tensor | None,
        mean: Tensor | None,
        var: Tensor | None,
        weight: Tensor | None,
        bias: Tensor | None,
        training: bool,
        momentum: float,
        eps: float,
        *,
        relu: bool,
    ) -> Tensor:
        if weight is None or bias is None or mean is None or var is None:
            raise UnfoldableError("batch_norm without weights or running statistics")
        if not training:
            return normalised(x, mean, var, weight, bias, skip, eps, relu=relu)
        y, seen_mean, seen_var = norm_relu(x, weight, bias, skip, eps, relu=relu)
        count = x.numel() // seen_mean.numel()
        fold_in(mean, var, seen_mean, seen_var, momentum, count / (count - 1))
        return y


def _pair(value: Any) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (value[0], value[1])
