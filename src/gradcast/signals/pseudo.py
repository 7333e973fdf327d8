"""A signal's gradient on its way to the model's: only replicas that use their images have one."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from gradcast.core import Metrics, Signal, Unlabelled
from gradcast.gradients.gradient import Gradient, PastGradients
from gradcast.replicas.replicas import Replicas
from gradcast.signals.agreement import compare
from gradcast.signals.guard import guarded
from gradcast.signals.policy import Policy


def pseudo_gradient(
    signal: Signal,
    model: Replicas,
    unlabelled: Unlabelled,
    gradient: Gradient,
    *,
    task: int,
    policy: Policy,
    past: Sequence[PastGradients] = (),
) -> tuple[Gradient, Metrics]:
    """The signal's gradient, and how it stood to the labelled ``gradient`` before the guard saw it."""
    pseudo, metrics = signal.gradient(model, unlabelled, task, statistics=policy.batchnorm)
    pseudo = pseudo.where(unlabelled.used)
    metrics = {name: torch.where(unlabelled.used, value, torch.nan) for name, value in metrics.items()}
    metrics |= compare(pseudo, gradient, list(past), unlabelled)
    return guarded(pseudo, gradient, list(past)) if policy.guard else pseudo, metrics


def images_used(unlabelled: Unlabelled | None, like: Float[Tensor, " r"]) -> Float[Tensor, " r"]:
    """How many unlabelled images each replica uses in this step."""
    return torch.zeros_like(like) if unlabelled is None else unlabelled.used.to(like.dtype) * unlabelled.images
