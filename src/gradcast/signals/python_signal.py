"""The signal *python*: a class of the user's own, by import path."""

from typing import Literal

from pydantic import ConfigDict

from gradcast.core import Signal
from gradcast.signals.signal_entry import signal_entry
from gradcast.signals.signal_table import SignalTable
from gradcast.specs.context import Context
from gradcast.specs.imported import build_imported
from gradcast.specs.table import Positive
from gradcast.streams.draws import Views


class PythonSignalSpec(SignalTable):
    """A class of your own that derives from ``gradcast.Signal``; further keys are its keyword arguments."""

    model_config = ConfigDict(extra="allow")
    name: Literal["python"]
    path: str  # "package.module:Class"
    views: Positive = 1  # how often each unlabelled image is shown in a batch


def _build(table: PythonSignalSpec, context: Context) -> Signal:
    return build_imported(table, context, Signal, "signal")  # type: ignore[type-abstract]


def _label(table: PythonSignalSpec) -> str:
    return table.path.partition(":")[2]


def _views(table: PythonSignalSpec) -> Views:
    return Views(table.views)


ENTRY = signal_entry(PythonSignalSpec, _build, _label, "its own", views=_views)
