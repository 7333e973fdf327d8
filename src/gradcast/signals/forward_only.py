"""The signal *forward-only*: unlabelled images pass, and no gradient comes of it. A control for BatchNorm."""

from typing import Literal

import torch

from gradcast.core import Metrics, Signal, Unlabelled
from gradcast.gradients.gradient import Gradient
from gradcast.replicas.replicas import Replicas, Statistics
from gradcast.signals.signal_entry import signal_entry
from gradcast.signals.signal_table import SignalTable


class ForwardOnlySpec(SignalTable):
    """The pass without the gradient."""

    name: Literal["forward-only"]


class ForwardOnly(Signal):
    """What is left of a signal when its gradient is thrown away: running statistics that saw the pool."""

    def gradient(
        self, model: Replicas, unlabelled: Unlabelled, task: int, *, statistics: Statistics = "update"
    ) -> tuple[Gradient, Metrics]:
        """Pass the images forwards; the gradient is zero."""
        model.forward(unlabelled.first_view().x, task, statistics=statistics, used=unlabelled.used)
        return Gradient(torch.zeros_like(model.theta)), {}


ENTRY = signal_entry(
    ForwardOnlySpec, lambda table, context: ForwardOnly(), "unlabelled pass only", "one forward pass", "control"
)
