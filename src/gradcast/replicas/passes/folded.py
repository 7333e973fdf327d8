"""All passes of all replicas as one batch: the fast way, for networks of linear, convolution and BatchNorm layers.

The network's own ``forward`` runs once, on the images of all passes along one axis. Functions that take weights are
replaced, while it runs, by layers that keep the weight gradients of the passes apart.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import batch_norm, linear, max_pool2d
from torch.overrides import TorchFunctionMode

from gradcast.networks.cosine import cosines, direction
from gradcast.networks.gates import gated, scaled
from gradcast.networks.normalisation import batch_norm_relu
from gradcast.replicas.passes import unfold as patches
from gradcast.replicas.passes.batchnorm import fold_in, norm_relu, normalised
from gradcast.replicas.passes.chance import DROPOUTS, WHOLE_CHANNELS, Noise
from gradcast.replicas.passes.layers import Convolution, Linear
from gradcast.replicas.passes.maxpool import pooled
from gradcast.replicas.passes.part import Part

Stacked = Mapping[str, Tensor]  # by name, for every replica
# A forward that looks at its numbers may go another way for each pass.
LOOKS = {Tensor.item, Tensor.tolist, Tensor.numpy, Tensor.__bool__, Tensor.__int__, Tensor.__float__, Tensor.__index__}


class UnfoldableError(Exception):
    """The network uses its weights in a way that has no folded layer."""


def outputs(
    module: nn.Module,
    weights: Stacked,
    buffers: Stacked,
    x: Tensor,
    noise: Noise | None = None,
    part: Part | None = None,
) -> Float[Tensor, "n c"]:
    """The network's outputs for ``x [R * K * M, *shape]`` with ``weights [R, K, ...]``; ``buffers [R, ...]`` change.

    ``part`` where these are this rank's images, and other ranks have the others.
    """
    with Folding(module, weights, buffers, noise, part):
        found: Tensor = module(channels_last(x))
    return found


def channels_last(x: Float[Tensor, "n *shape"]) -> Float[Tensor, "n *shape"]:
    """Images with the channels of a pixel side by side, as convolutions like them best on GPUs and hosts."""
    return x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x


@dataclass(frozen=True)
class Seen:
    """A linear layer's pass: the names of its weights, what went in and what came out."""

    weight: str
    bias: str | None
    x: Tensor
    y: Tensor


def linear_layers(
    module: nn.Module, weights: Mapping[str, Float[Tensor, "r ..."]], x: Tensor, first: Tensor | None = None
) -> tuple[Float[Tensor, "n c"], list[Seen]]:
    """Outputs as above, and every linear layer on the way; gradients flow back to their outputs, not to weights.

    ``weights`` have no axis of passes here. ``first`` is the first layer's output where it is known already.
    """
    with Watching(module, weights, first) as watching:
        found: Tensor = module(x)
    return found, watching.seen


class Watching(TorchFunctionMode):
    """While it is on, linear layers take one weight a replica, and are remembered."""

    def __init__(self, module: nn.Module, weights: Mapping[str, Tensor], first: Tensor | None) -> None:
        super().__init__()
        self.weights, self.first = weights, first
        self.names = _names(module)
        self.seen: list[Seen] = []

    def __torch_function__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Ours for linear layers, the ordinary one for functions without weights."""
        if func is linear:
            return self._linear(*args, **(kwargs or {}))
        if any(id(leaf) in self.names for leaf in _leaves(args, kwargs)):
            raise UnfoldableError(getattr(func, "__name__", str(func)))
        return func(*args, **(kwargs or {}))

    def _linear(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        own = self.names[id(weight)]
        shift = None if bias is None else self.names[id(bias)]
        if self.first is not None and not self.seen:
            y = self.first.detach()
        else:
            biases = None if shift is None else self.weights[shift].unsqueeze(1)
            y = Linear.apply(x, self.weights[own].unsqueeze(1), biases)  # type: ignore[no-untyped-call]
        y = y if y.requires_grad else y.requires_grad_()
        self.seen.append(Seen(own, shift, x.detach(), y))
        return y


class Folding(TorchFunctionMode):
    """While it is on, the module's own weights and buffers stand for folded ones of the same name."""

    def __init__(
        self,
        module: nn.Module,
        weights: Mapping[str, Tensor],
        buffers: Mapping[str, Tensor],
        noise: Noise | None,
        part: Part | None = None,
    ) -> None:
        super().__init__()
        self.stacked, self.noise, self.part = {**weights, **buffers}, noise, part
        self.names = _names(module)
        self.layers: dict[object, Callable[..., Tensor]] = {
            linear: self._linear,
            torch.conv2d: self._convolution,
            batch_norm: self._batch_norm,
            batch_norm_relu: self._batch_norm_relu,
            cosines: self._cosines,
            scaled: self._scaled,
            gated: self._gated,
            max_pool2d: pooled,
        }

    def __torch_function__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Ours for layers, the ordinary one for functions without weights, none for other functions of weights."""
        layer = self.layers.get(func)
        if layer is not None:
            return layer(*args, **(kwargs or {}))
        if func in DROPOUTS and self.noise is not None:
            return self._dropout(*args, **(kwargs or {}), channels=func in WHOLE_CHANNELS)
        own = [self.names[id(leaf)] for leaf in _leaves(args, kwargs) if id(leaf) in self.names]
        if own and own[0].endswith("num_batches_tracked") and func is Tensor.add_:
            return self.stacked[own[0]].add_(self.passes * args[1])
        if own or func in LOOKS:
            raise UnfoldableError(getattr(func, "__name__", str(func)))
        return func(*args, **(kwargs or {}))

    @property
    def passes(self) -> int:
        """How many passes each replica makes."""
        return next(iter(self.stacked.values())).shape[1]

    def _of(self, own: Tensor | None) -> Tensor | None:
        return None if own is None else self.stacked[self.names[id(own)]]

    def _linear(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        folded: Tensor = Linear.apply(x, self._of(weight), self._of(bias))  # type: ignore[no-untyped-call]
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
        filters = self.stacked[self.names[id(weight)]]
        if patches.pay(x, filters, options):
            return patches.convolved(x, filters, self._of(bias), options[0])
        folded: Tensor = Convolution.apply(x, filters, self._of(bias), options)  # type: ignore[no-untyped-call]
        return folded

    def _cosines(self, x: Tensor, weight: Tensor) -> Tensor:
        own = self.stacked[self.names[id(weight)]]
        folded: Tensor = Linear.apply(direction(x), direction(own), None)  # type: ignore[no-untyped-call]
        return folded

    def _scaled(self, x: Tensor, scale: Tensor) -> Tensor:
        return _multiplied(x, self.stacked[self.names[id(scale)]])

    def _gated(self, x: Tensor, embedding: Tensor, slope: Tensor) -> Tensor:
        steep = self.stacked[self.names[id(slope)]].view(-1, 1, 1)
        return _multiplied(x, torch.sigmoid(steep * self.stacked[self.names[id(embedding)]]))

    def _dropout(
        self, x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False, *, channels: bool
    ) -> Tensor:
        assert self.noise is not None
        if not training or p == 0 or self.noise.silent:
            return x
        if self.part is not None:
            return self.part.dropped(self.noise, x, p, channels=channels)
        return self.noise.dropped(x, p, channels=channels)

    def _batch_norm(self, x: Tensor, mean: Tensor | None, var: Tensor | None, **options: Any) -> Tensor:
        return self._norm(x, None, mean, var, **options)

    def _batch_norm_relu(self, x: Tensor, skip: Tensor | None, mean: Tensor, var: Tensor, **options: Any) -> Tensor:
        return self._norm(x, skip, mean, var, **options)

    def _norm(
        self,
        x: Tensor,
        skip: Tensor | None,
        mean: Tensor | None,
        var: Tensor | None,
        *,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        training: bool = False,
        momentum: float = 0.1,
        eps: float = 1e-5,
        leak: float = 1.0,
    ) -> Tensor:
        weight, bias, mean, var = (self._of(own) for own in (weight, bias, mean, var))
        if weight is None or bias is None or mean is None or var is None:
            raise UnfoldableError("batch_norm without weights or running statistics")
        if not training:
            return normalised(x, mean, var, weight, bias, skip, eps, leak)
        norm = norm_relu if self.part is None else self.part.norm_relu
        y, seen_mean, seen_var = norm(x, weight, bias, skip, eps, leak)
        count = x.numel() // seen_mean.numel() if self.part is None else self.part.values(x)
        fold_in(mean, var, seen_mean, seen_var, momentum, count / (count - 1))
        return y


def _multiplied(x: Tensor, factors: Float[Tensor, "r k u"]) -> Tensor:
    """Images of each pass with the pass's own factors, one for all units or one a unit."""
    apart: Tensor = x.unflatten(0, (*factors.shape[:2], -1))
    own = factors.to(x.dtype).view(*factors.shape[:2], 1, -1, *[1] * (x.dim() - 2))
    return (apart * own).flatten(0, 2)


@lru_cache(maxsize=16)
def _names(module: nn.Module) -> dict[int, str]:
    """Names of a module's own weights and buffers; looking them up takes as long as a small product."""
    return {id(tensor): name for name, tensor in chain(module.named_parameters(), module.named_buffers())}


def _leaves(args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> list[Any]:
    """All arguments; of a list of tensors, each."""
    flat: list[Any] = []
    for argument in (*args, *(kwargs or {}).values()):
        flat += argument if isinstance(argument, list | tuple) else (argument,)
    return flat


def _pair(value: Any) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (value[0], value[1])
