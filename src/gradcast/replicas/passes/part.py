"""This rank's part of a pass whose images are divided over ranks: what needs the images of all is asked of all."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Shaped
from torch import Tensor
from torch.autograd import Function

from gradcast.cluster.ranks import Ranks
from gradcast.replicas.passes.batchnorm import Moments, affine_relu
from gradcast.replicas.passes.chance import Noise


@dataclass(frozen=True)
class Part:
    """``replicas`` times ``passes`` passes of ``count`` images each, of which every rank has a share."""

    ranks: Ranks
    replicas: int
    passes: int
    count: int

    def own(self, whole: Shaped[Tensor, "n *any"]) -> Shaped[Tensor, "own *any"]:
        """This rank's rows of something that lies replica by replica, pass by pass, image by image.

        They lie in memory as those of the whole do: layers follow that, and random numbers are drawn in that order.
        """
        rows: Tensor = whole.unflatten(0, (self.replicas, self.passes, self.count))
        taken: Tensor = rows[:, :, self.ranks.share(self.count)].flatten(0, 2)
        if taken.stride() == whole.stride():
            return taken
        return taken.new_empty_strided(taken.shape, whole.stride()).copy_(taken)

    def gathered(self, own: Float[Tensor, "own c"]) -> Float[Tensor, "n c"]:
        """The rows of all ranks; the gradient goes back to those of this one."""
        found: Tensor = _Gathered.apply(own, self)  # type: ignore[no-untyped-call]
        return found

    def norm_relu(
        self, x: Float[Tensor, "own c *s"], weight: Moments, bias: Moments, skip: Tensor | None, eps: float, leak: float
    ) -> tuple[Tensor, Moments, Moments]:
        """As ``batchnorm.norm_relu``, with mean and variance over the images of all ranks."""
        mean, var = _SharedMoments.apply(x, self)  # type: ignore[no-untyped-call]
        scale = weight * (var + eps).rsqrt()
        y = affine_relu(x, scale, bias - mean * scale, skip, leak)
        return y, mean.detach(), var.detach()

    def dropped(self, noise: Noise, x: Float[Tensor, "own *s"], p: float, *, channels: bool) -> Float[Tensor, "own *s"]:
        """Dropout with the numbers that one process would draw for all images."""
        rows = self.replicas * self.passes * self.count
        whole = x.new_empty_strided((rows, *x.shape[1:]), x.stride())
        return x * self.own(noise.kept(whole, p, channels=channels))

    def values(self, x: Float[Tensor, "own c *s"]) -> int:
        """How many numbers of a channel a pass has, over all ranks."""
        own = self.ranks.sizes(self.count)[self.ranks.number]
        return x.numel() // (self.replicas * self.passes * own * x.shape[1]) * self.count


class _Gathered(Function):
    """Rows of all ranks. All of them go on with all rows, so that each has the whole gradient at them already."""

    @staticmethod
    def forward(ctx: Any, own: Tensor, part: Part) -> Tensor:
        """Shares lie along the images of a pass, not along all rows."""
        ctx.part = part
        rows: Tensor = own.unflatten(0, (part.replicas, part.passes, -1))
        found = part.ranks.gathered(rows.movedim(2, 0), part.count)
        return found.movedim(0, 2).flatten(0, 2)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, None]:
        """The rows of this rank."""
        return ctx.part.own(dy), None


class _SharedMoments(Function):
    """Mean and biased variance of every channel over the images of all ranks, one of each a pass ``[R, K, C]``."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, part: Part) -> tuple[Tensor, Tensor]:
        """From each rank's mean and variance, and how far its mean lies from that of all: sums of squares round off."""
        ranks, images = part.ranks, _images(x, part)
        var, mean = torch.var_mean(images, dim=_summed(images), correction=0)
        means, variances = ranks.gathered(torch.stack([mean, var]).unsqueeze(0), ranks.size).unbind(1)
        shares = means.new_tensor(ranks.sizes(part.count)).div_(part.count).view(-1, 1, 1, 1)
        mean = (shares * means).sum(0)
        var = (shares * (variances + (means - mean).square())).sum(0)
        ctx.save_for_backward(x, mean)
        ctx.part = part
        return mean, var

    @staticmethod
    def backward(ctx: Any, dmean: Tensor, dvar: Tensor) -> tuple[Tensor, None]:
        """Every rank's outputs depend on these statistics: the gradient at them is the sum of what each has."""
        (x, mean), part = ctx.saved_tensors, ctx.part
        images = _images(x, part)
        dmean, dvar = part.ranks.summed(torch.stack([dmean, dvar])) / part.values(x)
        beside = (part.replicas, part.passes, 1, -1, *[1] * (x.dim() - 2))
        dx = dmean.view(beside) + 2 * (images - mean.view(beside)) * dvar.view(beside)
        return dx.to(x.dtype).view_as(x), None


def _images(x: Tensor, part: Part) -> Tensor:
    """By pass, in an arithmetic that sums do not suffer from."""
    apart: Tensor = x.unflatten(0, (part.replicas, part.passes, -1))
    return apart.to(torch.promote_types(x.dtype, torch.float32))


def _summed(images: Tensor) -> list[int]:
    """Axes of images and pixels: all but replicas, passes and channels."""
    return [2, *range(4, images.dim())]
