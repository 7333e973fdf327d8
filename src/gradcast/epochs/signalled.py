"""What a signal does in one update of a learner that trains many epochs."""

from collections.abc import Sequence

import torch

from gradcast.core import Labelled, Metrics, Signal, Unlabelled
from gradcast.errors import GradcastError
from gradcast.gradients.gradient import Gradient
from gradcast.replicas import Replicas
from gradcast.signals.policy import Policy
from gradcast.signals.pseudo import images_used, pseudo_gradient


def check_policy(policy: Policy) -> Policy:
    """Signals join the labelled gradient here; nothing else is offered."""
    if policy.update != "joint":
        raise GradcastError(
            f"policy.update = {policy.update!r} is not for learners that train many epochs; set policy.update=joint"
        )
    return policy


def begin_update(model: Replicas, signal: Signal | None, name: str) -> None:
    """Random numbers of an update: as many updates of a batch, as many streams."""
    for network in (model, *(() if signal is None else signal.networks())):
        network.chance.begin(name)


def add_signal(
    signal: Signal,
    model: Replicas,
    labelled: Labelled,
    gradient: Gradient,
    unlabelled: Unlabelled | None,
    policy: Policy,
) -> tuple[Gradient, Metrics]:
    """The signal watches the labelled batch, then adds the gradient of the unlabelled one, if there is one."""
    if unlabelled is not None:
        signal.prepare(unlabelled)
    metrics = signal.learn(model, labelled)
    metrics["unlabelled"] = images_used(unlabelled, gradient.flat[:, 0])
    if unlabelled is None:
        return gradient, metrics
    task = labelled.batch.task
    pseudo, told = pseudo_gradient(signal, model, unlabelled, gradient, task=task, policy=policy)
    return gradient + pseudo, metrics | told


def mean_over(updates: Sequence[Metrics]) -> Metrics:
    """Means over updates, of those that have something to say."""
    names = {name: None for update in updates for name in update}
    return {name: torch.stack([update[name] for update in updates if name in update]).nanmean(0) for name in names}
