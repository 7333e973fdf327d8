"""Shapes of logits, gradients and labels that a caller hands over, checked in a sentence."""

from collections.abc import Sequence

import torch
from torch import Tensor

from gradcast.errors import GradcastError


def check_logits(z: Tensor, replicas: Sequence[int], classes: int, what: str = "the logits") -> None:
    """Whether ``z`` is ``[*replicas, batch, classes]``, floating point; one learner may see more leading axes."""
    expected = ", ".join([*map(str, replicas), "batch", str(classes)])
    if z.dim() < 2 or z.shape[-1] != classes or not _covers(tuple(z.shape[:-2]), tuple(replicas)):
        raise GradcastError(f"{what} have the shape {_shape(z)}; give [{expected}]")
    if not z.is_floating_point():
        raise GradcastError(f"{what} are of the type {z.dtype}; give floating-point numbers")
    if not z.shape[-2]:
        raise GradcastError(f"{what} have the shape {_shape(z)}, which is an empty batch; give at least one row")


def check_labelled(z: Tensor, dz: Tensor | None, y: Tensor, replicas: Sequence[int], classes: int) -> None:
    """Whether logits, their gradient and their labels belong together."""
    check_logits(z, replicas, classes)
    if dz is not None and dz.shape != z.shape:
        raise GradcastError(
            f"dz has the shape {_shape(dz)} and z has {_shape(z)}; give the gradient with respect to z, or None"
        )
    if y.shape != z.shape[:-1]:
        raise GradcastError(f"the labels have the shape {_shape(y)}; give one label a row of z: {_shape(z[..., 0])}")
    if y.dtype != torch.long:
        raise GradcastError(f"the labels are of the type {y.dtype}; give whole numbers (torch.long)")


def _covers(leading: tuple[int, ...], replicas: tuple[int, ...]) -> bool:
    """Whether stacked weights fit logits with these leading axes."""
    return leading[len(leading) - len(replicas) :] == replicas and len(leading) >= len(replicas)


def _shape(tensor: Tensor) -> str:
    return str(list(tensor.shape))
