"""gradcast: semi-supervised continual learning with predicted gradients.

To run experiments: ``load`` and ``parse`` give a specification (``Spec``), ``run`` trains it and returns a
``RunResult``, ``sweep`` tunes it first and returns a ``SweepResult``, ``load_model`` gives a trained network back.
``own_data`` and ``from_datasets`` turn your images into a ``Source``, ``own_tasks`` turns several of them into
``OwnTasks``. ``pretrain`` trains a network on unlabelled images alone and returns it as ``Pretrained``.

In your own training loop: ``GradientLearner``.

To write a method: a ``Learner`` or a ``Signal`` trains ``Replicas`` of a network. It receives a ``Batch`` of a
``Stream``, and what was computed of it: ``Labelled``, ``Unlabelled``, ``Preview``. A ``Policy`` says when a signal is
used. A package registers a method by a ``LearnerEntry`` or ``SignalEntry`` (networks: ``Entry``, sources: ``Dataset``).

Mistakes that a sentence can explain raise ``GradcastError``.
"""

from gradcast.core import (
    Batch,
    Feeds,
    Labelled,
    Learner,
    LogitSignal,
    Metrics,
    Mixed,
    Preview,
    Replay,
    Scorer,
    Signal,
    TaskImages,
    Terms,
    Unlabelled,
)
from gradcast.data.catalogue import Dataset
from gradcast.data.images import Source
from gradcast.data.own_images import from_datasets, own_data
from gradcast.data.own_tasks import OwnTasks, own_tasks
from gradcast.errors import GradcastError
from gradcast.gradients import GradientLearner
from gradcast.gradients.gradient import Gradient, PastGradients
from gradcast.learners.learner_entry import LearnerEntry
from gradcast.learners.learner_table import DescentTable
from gradcast.replicas.replicas import Replicas
from gradcast.signals.policy import Policy
from gradcast.signals.signal_entry import SignalEntry
from gradcast.signals.signal_table import SignalTable
from gradcast.specs.context import Context
from gradcast.specs.entry import Entry
from gradcast.streams.stream import Stream

# What follows loads the methods of installed packages, which import what stands above.
# isort: split
from gradcast.head_start.pretrain import pretrain
from gradcast.head_start.pretrained import Pretrained
from gradcast.results.load_model import load_model
from gradcast.results.run_result import RunResult
from gradcast.runs.api import run
from gradcast.runs.checkpoint.keeper import Safety
from gradcast.specs.spec import Spec
from gradcast.specs.text import load, parse
from gradcast.sweeps.sweep import SweepResult, sweep

__version__ = "0.1.0"
__all__ = [
    "Batch",
    "Context",
    "Dataset",
    "DescentTable",
    "Entry",
    "Feeds",
    "GradcastError",
    "Gradient",
    "GradientLearner",
    "Labelled",
    "Learner",
    "LearnerEntry",
    "LogitSignal",
    "Metrics",
    "Mixed",
    "OwnTasks",
    "PastGradients",
    "Policy",
    "Pretrained",
    "Preview",
    "Replay",
    "Replicas",
    "RunResult",
    "Safety",
    "Scorer",
    "Signal",
    "SignalEntry",
    "SignalTable",
    "Source",
    "Spec",
    "Stream",
    "SweepResult",
    "TaskImages",
    "Terms",
    "Unlabelled",
    "__version__",
    "from_datasets",
    "load",
    "load_model",
    "own_data",
    "own_tasks",
    "parse",
    "pretrain",
    "run",
    "sweep",
]
