"""Labelled images that a setting does not train on: for the validations of a schedule, or for the learner."""

from gradcast.learners.learner_entry import LearnerEntry
from gradcast.learners.registry import LEARNERS
from gradcast.specs.spec import Setting
from gradcast.streams.stream import Stream


def validation_share(setting: Setting) -> float:
    """The share of a task's labelled images that the schedule sets aside."""
    return 0.0 if setting.plateau is None else setting.plateau.validation


def of_every_class(setting: Setting, stream: Stream) -> int:
    """Images of every class of a task that are set aside for the learner, where the schedule sets none aside."""
    entry = LEARNERS[setting.learner.name]
    return entry.aside(setting.learner, stream.width) if isinstance(entry, LearnerEntry) else 0


def held(setting: Setting, stream: Stream, task: int) -> int:
    """Labelled images of a task that are set aside."""
    share = validation_share(setting)
    if share:
        return int(share * stream.count(task))
    return of_every_class(setting, stream) * len(stream.task_classes[task])
