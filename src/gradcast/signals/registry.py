"""Signals by name: one line each."""

from typing import TYPE_CHECKING, Literal

from gradcast.signals import (
    ada_net,
    co_training,
    contrastive,
    distil,
    dual_student,
    fixmatch,
    forward_only,
    icl,
    mean_teacher,
    meta_gradient,
    mutexmatch,
    noise,
    predicted,
    pseudo_labels,
    python_signal,
    rotation,
    tnar,
    true_labels,
    vat,
    vicreg,
)
from gradcast.signals.signal_entry import signal_entry
from gradcast.signals.signal_table import SignalTable
from gradcast.specs.entry import Registry


class NoSignalSpec(SignalTable):
    """No signal: training on labelled images alone."""

    name: Literal["none"] = "none"


NONE = signal_entry(NoSignalSpec, lambda table, context: None, "", "nothing")
SIGNALS = Registry(
    "signal",
    [
        NONE,
        predicted.ENTRY,
        pseudo_labels.ENTRY,
        true_labels.ENTRY,
        meta_gradient.ENTRY,
        mean_teacher.ENTRY,
        fixmatch.ENTRY,
        mutexmatch.ENTRY,
        icl.ENTRY,
        dual_student.ENTRY,
        co_training.ENTRY,
        ada_net.ENTRY,
        vat.ENTRY,
        tnar.ENTRY,
        noise.ENTRY,
        forward_only.ENTRY,
        contrastive.ENTRY,
        distil.ENTRY,
        rotation.ENTRY,
        vicreg.ENTRY,
        python_signal.ENTRY,
    ],
)
if TYPE_CHECKING:
    SignalSpec = SignalTable
else:
    SignalSpec = SIGNALS.union()
