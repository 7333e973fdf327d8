"""What cannot work together, said before anything is trained."""

import torch
from torch import nn

from gradcast.epochs.curriculum import Tasks
from gradcast.errors import GradcastError
from gradcast.learners.registry import AclSpec, AgemSpec, DclSpec, GemSpec
from gradcast.networks.featured import Featured
from gradcast.semi.feasible import check_semi, uses_unlabelled
from gradcast.signals.registry import ContrastiveSpec, NoSignalSpec, RotationSpec, views
from gradcast.specs import build
from gradcast.specs.spec import Setting
from gradcast.streams.stream import Stream


def check(setting: Setting, stream: Tasks) -> None:
    """Raise where stream, network, learner and signal of a row do not fit."""
    if setting.semi is not None:
        assert isinstance(stream, Stream)
        check_semi(setting, stream)
    outputs = build.heads(setting, stream).outputs
    made = build.module(setting, stream)
    if any(isinstance(layer, nn.modules.batchnorm._BatchNorm) for layer in made.modules()):
        _check_batches(setting, stream)
    _check_memory(setting, stream)
    signal = setting.signal
    turning = isinstance(signal, RotationSpec) or (isinstance(signal, ContrastiveSpec) and "rotate" in signal.augment)
    if turning and stream.shape[1] != stream.shape[2]:
        raise GradcastError(
            f"the signal {signal.name!r} turns images, these are not square ({stream.shape[1]} x {stream.shape[2]}); "
            "set stream.size, or choose another signal"
        )
    if isinstance(signal, RotationSpec | ContrastiveSpec):
        Featured(made, outputs).check(torch.rand(2, *stream.shape, generator=torch.Generator().manual_seed(0)))


def _check_memory(setting: Setting, stream: Tasks) -> None:
    """Memories that are shared equally among classes have room for each; none at all is another matter."""
    learner, width = setting.learner, stream.width
    if isinstance(learner, AgemSpec | AclSpec) and 0 < learner.memory < width:
        none = ", or to 0" if isinstance(learner, AclSpec) else ""
        raise GradcastError(
            f"learner.memory = {learner.memory} leaves classes without an image, a task has {width}; "
            f"set it to {width} or more{none}"
        )


def _check_batches(setting: Setting, stream: Tasks) -> None:
    """BatchNorm cannot normalise a single image."""
    batch, policy, learner = setting.stream.batch, setting.policy, setting.learner
    counts = map(stream.count, range(len(stream.tasks)))
    short = min(min(count % batch or batch, count) for count in counts)
    passes = {"stream.batch": batch if setting.semi is not None else short}  # few labels: every batch is full
    unlabelled = not isinstance(setting.signal, NoSignalSpec)
    if setting.semi is not None:
        unlabelled = uses_unlabelled(setting)
    if unlabelled and policy.p > 0 and policy.batchnorm != "frozen":
        passes["policy.batch"] = views(setting.signal).count * policy.batch
    if isinstance(learner, GemSpec | DclSpec | AgemSpec) and learner.batchnorm != "frozen":
        passes["learner.memory"] = learner.memory
    if isinstance(learner, AgemSpec) and learner.batchnorm != "frozen":
        passes["learner.reference"] = learner.reference
    if isinstance(learner, AclSpec) and learner.memory > 0:
        passes["learner.memory"] = learner.memory
    for key, smallest in passes.items():
        if smallest < 2:
            raise GradcastError(
                f"{key} leads to a pass of a single image, which BatchNorm cannot normalise; "
                "change it, or set model.name=mlp and model.norm=none"
            )
