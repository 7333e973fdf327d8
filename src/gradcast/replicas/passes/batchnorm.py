"""BatchNorm with statistics of each pass, and the sum and leaky ReLU that may follow it, in one go."""

from functools import cache
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd import Function
from torch.nn.functional import leaky_relu, leaky_relu_

from gradcast.replicas.passes import fused
from gradcast.replicas.passes.kernels import ready

Moments = Float[Tensor, "r k c"]


class NormRelu(Function):
    """``relu(batch_norm(x) + skip)`` with one mean and variance a pass; the sum is optional.

    ``weight`` and ``bias`` are ``[R, K, C]``, and so are the mean and the (biased) variance that come with the output.
    ``leak`` is the share of negative numbers that ReLU lets through: 0 for an ordinary one, 1 for none.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, skip: Tensor | None, eps: float, leak: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Output, mean and variance."""
        groups, y = weight.shape[0] * weight.shape[1], torch.empty_like(x)
        own = zip(x.chunk(groups), y.chunk(groups), weight.flatten(0, 1), bias.flatten(0, 1), strict=True)
        mean, rstd = [], []
        for images, out, scale, shift in own:
            found, centre, inverse = torch.native_batch_norm(images, scale, shift, None, None, True, 0.0, eps)
            out.copy_(found)
            mean.append(centre)
            rstd.append(inverse)
        y = y if skip is None else y.add_(skip)
        y = y if leak == 1 else leaky_relu_(y, leak)
        ctx.save_for_backward(x, None if leak == 1 else y, weight, *mean, *rstd)
        ctx.with_skip, ctx.eps, ctx.leak = skip is not None, eps, leak
        means, var = torch.stack(mean).view_as(weight), torch.stack(rstd).view_as(weight).pow(-2).sub_(eps)
        ctx.mark_non_differentiable(means, var)
        return y, means, var

    @staticmethod
    def backward(ctx: Any, dy: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        """Through the statistics every image's gradient depends on all images of its pass."""
        x, y, weight, *moments = ctx.saved_tensors
        dy = dy if y is None else torch.ops.aten.leaky_relu_backward.default(dy, y, ctx.leak, True)
        groups, dx = len(moments) // 2, torch.empty_like(x)
        mean, rstd = moments[:groups], moments[groups:]
        own = zip(x.chunk(groups), dy.chunk(groups), dx.chunk(groups), weight.flatten(0, 1), mean, rstd, strict=True)
        dweight, dbias = [], []
        for images, slopes, out, scale, centre, inverse in own:
            found, tilt, shift = torch.ops.aten.native_batch_norm_backward.default(
                slopes, images, scale, None, None, centre, inverse, True, ctx.eps, [True, True, True]
            )
            out.copy_(found)
            dweight.append(tilt)
            dbias.append(shift)
        stacked = [torch.stack(each).view_as(weight) for each in (dweight, dbias)]
        return dx, *stacked, dy if ctx.with_skip else None, None, None


def norm_relu(
    x: Float[Tensor, "n c *s"], weight: Moments, bias: Moments, skip: Tensor | None, eps: float, leak: float
) -> tuple[Tensor, Moments, Moments]:
    """Output, mean and biased variance of every pass."""
    function = fused.FusedNormRelu if fused.applies_to(x) else NormRelu
    y, mean, var = function.apply(x, weight, bias, skip, eps, leak)  # type: ignore[no-untyped-call]
    return y, mean, var


def normalised(
    x: Float[Tensor, "n c *s"],
    mean: Float[Tensor, "r c"],
    var: Float[Tensor, "r c"],
    weight: Moments,
    bias: Moments,
    skip: Tensor | None,
    eps: float,
    leak: float,
) -> Tensor:
    """The same with given statistics, one mean and variance a replica."""
    scale = weight * (var + eps).rsqrt().unsqueeze(1)
    return affine_relu(x, scale, bias - mean.unsqueeze(1) * scale, skip, leak)


def affine_relu(x: Float[Tensor, "n c *s"], scale: Moments, shift: Moments, skip: Tensor | None, leak: float) -> Tensor:
    """``relu(x * scale + shift + skip)``, scale and shift of each pass."""
    if fused.applies_to(x):
        found: Tensor = fused.FusedAffineRelu.apply(x, scale, shift, skip, leak)  # type: ignore[no-untyped-call]
        return found
    images = _by_pass(x, scale)
    y = (images * _beside(scale, images) + _beside(shift, images)).to(x.dtype).view(x.shape)
    y = y if skip is None else y + skip
    return y if leak == 1 else leaky_relu(y, leak)


def fold_in(
    mean: Float[Tensor, "r c"],
    var: Float[Tensor, "r c"],
    seen_mean: Moments,
    seen_var: Moments,
    momentum: float,
    unbias: float,
) -> None:
    """Running statistics after the K passes in order, each mapping ``s`` to ``(1 - m) s + m * seen``, in place.

    Running variances are unbiased: ``unbias`` is n / (n - 1).
    """
    if ready(mean) and mean.dtype == torch.float32:
        fused.fold_in(mean, var, seen_mean, seen_var, momentum, unbias)
        return
    passes = seen_mean.shape[1]
    weights = _weights(passes, momentum, mean.dtype, mean.device)
    mean.mul_((1 - momentum) ** passes).add_((seen_mean * weights).sum(1))
    var.mul_((1 - momentum) ** passes).add_((seen_var * (unbias * weights)).sum(1))


@cache
def _weights(passes: int, momentum: float, dtype: torch.dtype, device: torch.device) -> Float[Tensor, "k 1"]:
    """What is left of each pass at the end."""
    left = [momentum * (1 - momentum) ** (passes - 1 - index) for index in range(passes)]
    return torch.tensor(left, dtype=dtype, device=device).unsqueeze(1)


def _by_pass(x: Tensor, weight: Tensor) -> Tensor:
    images: Tensor = x.unflatten(0, (*weight.shape[:2], -1))
    return images


def _beside(moments: Moments, images: Tensor) -> Tensor:
    return moments.view(*moments.shape[:2], 1, moments.shape[2], *[1] * (images.dim() - 4))
