"""What a row's learner and signals need or are, by the traits of their entries."""

from gradcast.learners.registry import LEARNERS
from gradcast.signals.registry import SIGNALS
from gradcast.signals.signal_table import SignalTable
from gradcast.specs.spec import Setting


def signal_with(setting: Setting, trait: str) -> SignalTable | None:
    """The first signal of a row that has a trait."""
    return next((signal for signal in setting.signals if trait in SIGNALS[signal.name].traits), None)


def learner_has(setting: Setting, trait: str) -> bool:
    """Whether the row's learner has a trait."""
    return trait in LEARNERS[setting.learner.name].traits
