"""Whether a setting fits the images of its stream, said before anything is trained."""

from collections.abc import Sequence
from itertools import product

import torch
from torch import nn

from gradcast.data.images import is_vector
from gradcast.errors import GradcastError
from gradcast.learners.acl.acl_table import AclSpec
from gradcast.learners.agem import AgemSpec
from gradcast.learners.bic import BicSpec
from gradcast.learners.cfa import CfaSpec
from gradcast.learners.dcl import DclSpec
from gradcast.learners.ewc import EwcSpec
from gradcast.learners.gem import GemSpec
from gradcast.learners.hal import HalSpec
from gradcast.learners.icarl import IcarlSpec
from gradcast.learners.learner_table import ReplayTable, TaskMemoryTable
from gradcast.learners.registry import LEARNERS
from gradcast.learners.xder import XDerSpec
from gradcast.networks.featured import Featured
from gradcast.networks.normalisation import needs_several
from gradcast.signals.mutexmatch import MutexMatchSpec
from gradcast.signals.registry import SIGNALS
from gradcast.signals.signal_entry import SignalEntry
from gradcast.signals.signal_table import SignalTable
from gradcast.specs import build
from gradcast.specs.compatibility import contradiction
from gradcast.specs.set_aside import held
from gradcast.specs.spec import Setting
from gradcast.specs.vector_rules import check_learner, check_signals
from gradcast.streams.named_augmentations import all_named_by, named, named_by
from gradcast.streams.stream import Stream
from gradcast.training.schedule_tables import PlateauSpec, StepsSpec


def check(setting: Setting, stream: Stream, seeds: Sequence[int] = (0,)) -> None:
    """Raise where the tables of a row contradict each other, or do not fit the images that these seeds see."""
    problem = contradiction(setting)
    if problem is not None:
        raise GradcastError(problem)
    for task, seed in product(range(len(stream.tasks)), seeds) if stream.labels is not None else ():
        stream.labelled(task, seed)  # too few images of a class show here
    _check_heads(setting, stream)
    if is_vector(stream.shape):
        check_learner(setting)
        check_signals(setting)
    made = build.network(setting, stream)
    if needs_several(made, build.seen_shape(setting, stream)):
        _check_batches(setting, stream)
        _check_exemplars(setting)
    _check_memory(setting, stream)
    _check_interval(setting, stream)
    _check_augment(setting, stream)
    if "features" in LEARNERS[setting.learner.name].traits:
        _check_features(setting, stream, made)
    for signal in [*setting.signals, *(setting.head_start.signal if setting.head_start.steps else ())]:
        traits = SIGNALS[signal.name].traits
        turning = "square" in traits or "rotate" in all_named_by(signal)
        if turning and stream.shape[1] != stream.shape[2]:
            raise GradcastError(
                f"the signal {signal.name!r} turns images, these are not square ({stream.shape[1]} x "
                f"{stream.shape[2]}); set stream.size, or choose another signal"
            )
        named(all_named_by(signal), stream.shape)  # augmentations of one's own are tried
        _check_compared(signal, setting, stream)
        _check_shape(signal, setting, stream)
        if "features" in traits:
            _check_features(setting, stream, made)


def _check_features(setting: Setting, stream: Stream, network: nn.Module) -> None:
    """The network ends in a linear layer, whose inputs are features."""
    outputs, seen = build.heads(setting, stream).outputs, build.seen_shape(setting, stream)
    Featured(network, outputs).check(torch.rand(2, *seen, generator=torch.Generator().manual_seed(0)))


def _check_heads(setting: Setting, stream: Stream) -> None:
    """Columns of the output layer stand for the classes of the tasks."""
    choice, learner = setting.model.heads, setting.learner.name
    if choice == "shared" and not stream.same_classes:
        raise GradcastError(
            "model.heads = 'shared' would make one column stand for a class of every task, and the tasks have "
            "different classes: set model.heads to masked (the loss is over the task's own classes), seen (all so far) "
            "or all"
        )
    if choice in ("seen", "all") and stream.same_classes:
        raise GradcastError(
            f"model.heads = {choice!r} is for tasks of different classes, and these have all the same: leave it out"
        )
    asked = setting.evaluation.task
    if asked in ("unknown", "both") and stream.same_classes:
        raise GradcastError(
            f"evaluation.task = {asked!r} is for tasks of different classes, and these have all the same: leave it out"
        )
    if asked in ("unknown", "both") and "task-modules" in LEARNERS[learner].traits:
        raise GradcastError(
            f"evaluation.task = {asked!r} needs one network for all tasks, and {learner!r} has weights of each task's "
            "own: leave it out"
        )
    if "same-classes" in LEARNERS[learner].traits and not stream.same_classes:
        raise GradcastError(
            f"the learner {learner!r} has one output layer for the classes that all tasks share, and these tasks have "
            "different ones; choose another learner"
        )
    if "past-tasks" in LEARNERS[learner].traits and len(stream.tasks) == 1:
        raise GradcastError(
            f"the learner {learner!r} keeps what past tasks need, and in a stream of one task there are none: raise "
            "stream.tasks, or choose another learner"
        )
    if "new-classes" in LEARNERS[learner].traits:
        _check_new_classes(setting, stream)
    if "own-network" in LEARNERS[learner].traits and len(set(map(len, stream.task_classes))) > 1:
        raise GradcastError(
            f"the learner {learner!r} makes heads of one size and these tasks have different numbers of classes; "
            "choose another learner"
        )


def _check_new_classes(setting: Setting, stream: Stream) -> None:
    """Some learners tell new classes from old ones."""
    if build.heads(setting, stream).kind == "shared":
        raise GradcastError(
            f"the learner {setting.learner.name!r} tells new classes from old ones, and these tasks share theirs: set "
            "model.heads=masked, which gives each task its own, or choose another learner"
        )


def _check_memory(setting: Setting, stream: Stream) -> None:
    """Memories that are shared equally among classes have room for each; none at all is another matter."""
    learner, width = setting.learner, stream.width
    if isinstance(learner, AgemSpec | AclSpec | TaskMemoryTable) and 0 < learner.memory < width:
        none = ", or to 0" if isinstance(learner, AclSpec) else ""
        raise GradcastError(
            f"learner.memory = {learner.memory} leaves classes without an image, a task has {width}; "
            f"set it to {width} or more{none}"
        )
    if isinstance(learner, BicSpec) and learner.memory < 2 * width:
        raise GradcastError(
            f"learner.memory = {learner.memory} has no room for an image of each of the {width} classes of a task to "
            f"train on and one to set aside; set it to {2 * width} or more"
        )
    if isinstance(learner, ReplayTable) and learner.places(len(stream.tasks)) < learner.replay:
        kept, key = learner.places(len(stream.tasks)), "capacity" if learner.capacity else "memory"
        raise GradcastError(
            f"learner.{key} leaves room for {kept} samples in all, fewer than learner.replay = {learner.replay} asks "
            f"for in a step; raise learner.{key}, or lower learner.replay"
        )
    classes = sum(map(len, stream.task_classes))
    if isinstance(learner, XDerSpec) and learner.places(len(stream.tasks)) < classes:
        kept, key = learner.places(len(stream.tasks)), "capacity" if learner.capacity else "memory"
        raise GradcastError(
            f"learner.{key} leaves room for {kept} samples in all, and all tasks together have {classes} classes, each "
            f"of which needs one; raise learner.{key}"
        )
    if isinstance(learner, IcarlSpec) and learner.memory < classes:
        raise GradcastError(
            f"learner.memory = {learner.memory} leaves classes without an exemplar, all tasks together have {classes}; "
            f"set it to {classes} or more"
        )


def _check_exemplars(setting: Setting) -> None:
    """Herding passes one exemplar alone before it chooses the second."""
    learner = setting.learner
    if isinstance(learner, IcarlSpec) and learner.batchnorm != "frozen":
        raise GradcastError(
            "the learner 'icarl' passes single exemplars, which BatchNorm of this network cannot normalise; "
            "set learner.batchnorm=frozen"
        )


def _check_augment(setting: Setting, stream: Stream) -> None:
    """A learner's augmentations can take images of this shape."""
    for key, steps in named_by(setting.learner).items():
        if "rotate" in steps and stream.shape[1] != stream.shape[2]:
            raise GradcastError(f"'rotate' needs square images; remove it from learner.{key} or set stream.size")
        named(steps, stream.shape)  # one's own are tried


def _check_compared(signal: SignalTable, setting: Setting, stream: Stream) -> None:
    """MutexMatch compares views by no more classes than a loss sees."""
    width = build.heads(setting, stream).width
    if isinstance(signal, MutexMatchSpec) and signal.k != "all" and signal.k > width:
        raise GradcastError(
            f"signal.k = {signal.k} is more than the {width} classes that a loss sees; set it to {width} or less, or "
            "to 'all'"
        )


def _check_shape(signal: SignalTable, setting: Setting, stream: Stream) -> None:
    """Some signals need images of a certain size."""
    entry = SIGNALS[signal.name]
    problem = entry.problem(signal, build.seen_shape(setting, stream)) if isinstance(entry, SignalEntry) else None
    if problem is not None:
        raise GradcastError(problem)


def _check_interval(setting: Setting, stream: Stream) -> None:
    """Online EWC knows an importance after an interval, which must not be longer than the first task."""
    learner = setting.learner
    if not isinstance(learner, EwcSpec) or learner.form != "online":
        return
    count = stream.count(0) - held(setting, stream, 0)
    batches = -(-count // setting.stream.batch)
    match setting.schedule:
        case StepsSpec(steps=steps):
            length = steps
        case PlateauSpec(epochs=epochs):
            length = epochs * batches
        case _:
            length = setting.stream.epochs * batches
    if learner.interval > length:
        raise GradcastError(
            f"learner.interval = {learner.interval} is more than the {length} steps of the first task, after which "
            f"nothing would be held; set it to {length} or less"
        )


def _learner_passes(setting: Setting, stream: Stream) -> dict[str, int]:
    """Images of the smallest passes that a learner makes besides, by the setting that decides."""
    learner, passes = setting.learner, dict[str, int]()
    if isinstance(learner, GemSpec | DclSpec | AgemSpec) and learner.batchnorm != "frozen":
        passes["learner.memory"] = learner.memory
    if isinstance(learner, AgemSpec) and learner.batchnorm != "frozen":
        passes["learner.reference"] = learner.reference
    if isinstance(learner, AclSpec) and learner.memory > 0:
        passes["learner.memory"] = learner.memory
    if isinstance(learner, HalSpec | CfaSpec | XDerSpec):
        passes["learner.replay"] = learner.replay
    if isinstance(learner, HalSpec) and learner.batchnorm != "frozen":
        passes["learner.batchnorm"] = len(stream.task_classes[0])  # anchors after the first task
    return passes


def _check_batches(setting: Setting, stream: Stream) -> None:
    """No pass is of a single image, which BatchNorm could not normalise."""
    batch, policy = setting.stream.batch, setting.policy
    counts = [stream.count(task) - held(setting, stream, task) for task in range(len(stream.tasks))]
    short = min(min(count % batch or batch, count) for count in counts)
    passes = {"stream.batch": batch if setting.schedule.name == "steps" else short}
    if setting.signals and policy.p > 0 and policy.batchnorm != "frozen":
        passes["policy.batch"] = policy.batch * min(build.views(signal).count for signal in setting.signals)
    passes |= _learner_passes(setting, stream)
    if setting.head_start.steps:
        views = min(build.views(signal).count for signal in setting.head_start.signal)
        passes["head_start.batch"] = setting.head_start.batch * views
    for key, smallest in passes.items():
        if smallest < 2:
            raise GradcastError(
                f"{key} leads to a pass of a single image, which BatchNorm cannot normalise; "
                "change it, or set model.name=mlp and model.norm=none"
            )
