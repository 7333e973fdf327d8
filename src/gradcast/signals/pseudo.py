"""The gradient of a row's signals on its way to the model's: only replicas that use their images have one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from gradcast.core import LogitSignal, Metrics, Signal, Unlabelled
from gradcast.gradients.gradient import Gradient, PastGradients
from gradcast.replicas.replicas import Replicas
from gradcast.signals.agreement import compare
from gradcast.signals.guard import guarded
from gradcast.signals.policy import Policy


@dataclass(frozen=True)
class Attached:
    """A signal of a row, the feed of unlabelled images it takes, and its name, which tells its numbers apart."""

    checkpointed: ClassVar[tuple[str, ...]] = ("signal",)
    signal: Signal
    feed: int = 0
    name: str = ""

    def of(self, unlabelled: Sequence[Unlabelled]) -> Unlabelled | None:
        """Its unlabelled images of a step."""
        return unlabelled[self.feed] if unlabelled else None


def pseudo_gradient(
    signals: Sequence[Attached],
    model: Replicas,
    unlabelled: Sequence[Unlabelled],
    gradient: Gradient,
    *,
    task: int,
    policy: Policy,
    past: Sequence[PastGradients] = (),
    ramp: Float[Tensor, ""] | None = None,
) -> tuple[Gradient, Metrics]:
    """The sum of all signals' gradients, and how it stood to the labelled ``gradient`` before the guard saw it."""
    made, metrics = list[Gradient](), dict[str, Tensor]()
    for feed, images in enumerate(unlabelled):
        own = [each for each in signals if each.feed == feed]
        sharing = [each for each in own if isinstance(each.signal, LogitSignal) and not each.signal.own_pass]
        if sharing:
            made.append(_at_logits(sharing, model, images, metrics, task=task, policy=policy, ramp=ramp))
        for each in own:
            if each not in sharing:
                found, told = each.signal.gradient(model, images, task, statistics=policy.batchnorm)
                made.append(found if ramp is None or not each.signal.ramped else Gradient(ramp * found.flat))
                join(metrics, told, each.name)
    used = unlabelled[0].used
    pseudo = made[0]
    for found in made[1:]:
        pseudo = pseudo + found
    pseudo = pseudo.where(used)
    metrics = {name: torch.where(used, value, torch.nan) for name, value in metrics.items()}
    metrics |= compare(pseudo, gradient, list(past), unlabelled[0])
    return guarded(pseudo, gradient, list(past)) if policy.guard else pseudo, metrics


def _at_logits(
    signals: Sequence[Attached],
    model: Replicas,
    images: Unlabelled,
    metrics: Metrics,
    *,
    task: int,
    policy: Policy,
    ramp: Float[Tensor, ""] | None,
) -> Gradient:
    """One pass for all signals that say what the gradient at its logits is; ``metrics`` grow."""
    shown = images.first_view()
    made = model.forward(shown.x, task, statistics=policy.batchnorm, used=images.used)
    total: Tensor | None = None
    for each in signals:
        assert isinstance(each.signal, LogitSignal)
        dz, told = each.signal.slopes(model, made.z, shown, task)
        dz = dz if ramp is None or not each.signal.ramped else ramp * dz
        total = dz if total is None else total + dz
        join(metrics, told, each.name)
    assert total is not None
    return made.pull(total)


def join(numbers: dict[str, Tensor], further: Mapping[str, Tensor], name: str) -> None:
    """Add one more signal's metrics; where a name is taken, the signal's name is put before it."""
    for key, value in further.items():
        numbers[f"{name}_{key}" if key in numbers and name else key] = value


def images_used(unlabelled: Sequence[Unlabelled], like: Float[Tensor, " r"]) -> Float[Tensor, " r"]:
    """How many unlabelled images each replica uses in this step."""
    images = torch.zeros_like(like)
    for each in unlabelled:
        images = images + each.used.to(like.dtype) * each.images
    return images


def pseudo_accuracy(signals: Sequence[Attached], unlabelled: Sequence[Unlabelled]) -> Metrics:
    """Share of unlabelled images that the first signal to label them labelled rightly; only reported, never used."""
    for own in signals if unlabelled else ():
        label, images = own.signal.label, unlabelled[own.feed]
        if label is not None and images.truth is not None:
            right = (label.argmax(-1) == images.truth).to(label.dtype).mean(-1)
            return {"pseudo_accuracy": torch.where(images.used, right, torch.nan)}
    return {}
