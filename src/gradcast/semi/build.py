"""From a specification with few labels to the loop it means."""

from collections.abc import Callable, Sequence

import numpy as np

from gradcast.core import LogitSignal
from gradcast.devices import Place
from gradcast.gradients.sgd import Sgd
from gradcast.learners.registry import FinetuneSpec, MeanTeacherSpec, MgSpec
from gradcast.replicas.replicas import Replicas
from gradcast.semi.core import Part
from gradcast.semi.feasible import uses_unlabelled
from gradcast.semi.labels import choose_labelled
from gradcast.semi.loop import SemiLoop
from gradcast.semi.mean_teacher import MeanTeacher
from gradcast.semi.meta_fitness import MetaFitness
from gradcast.semi.meta_labels import MetaLabels
from gradcast.semi.mix_up import MixUp
from gradcast.semi.signalled import Signalled
from gradcast.semi.step import SemiStep
from gradcast.semi.supply import Supply
from gradcast.signals.registry import META, PredictedSpec, PseudoLabelsSpec, gradient_learner, signal
from gradcast.specs import build
from gradcast.specs.spec import Setting
from gradcast.streams.pool import Pool
from gradcast.streams.scale import Scale
from gradcast.streams.stream import Stream
from gradcast.training.evaluate import Evaluator


def loop(setting: Setting, stream: Stream, evaluator: Evaluator, seeds: Sequence[int], place: Place) -> SemiLoop:
    """Everything one row needs, for all seeds at once."""
    semi, spec, columns = setting.semi, setting.learner, build.heads(setting, stream)
    assert semi is not None
    assert isinstance(spec, FinetuneSpec | MgSpec | MeanTeacherSpec)

    def another(purpose: str) -> Replicas:
        return build.model(setting.model, stream, columns, seeds, place, purpose)

    model, parts, mix_up, judged = another("model"), list[Part](), None, None
    if isinstance(spec, MgSpec):
        labels = MetaLabels()
        parts, mix_up = [labels], MixUp(labels, spec.mix_up, seeds) if spec.mix_up else None
    elif isinstance(spec, MeanTeacherSpec):
        average = MeanTeacher(another("teacher"), model, weight=spec.consistency, memory=spec.average)
        parts, judged = [average], average.teacher
    own = _signal(setting, model, seeds, lambda: another("labeller"), stream.scale)
    parts = [*parts, *([] if own is None else [own])]
    views = max((part.views for part in parts), default=1)
    supply = _supply(setting, stream, seeds, place, views)
    step = SemiStep(model, semi.schedule(spec.lr), Sgd(momentum=spec.momentum, decay=spec.decay), parts, mix_up)
    return SemiLoop(supply, step, evaluator, seeds, judged)


def _signal(
    setting: Setting, model: Replicas, seeds: Sequence[int], teacher: Callable[[], Replicas], scale: Scale
) -> Part | None:
    spec = setting.signal
    if isinstance(spec, PredictedSpec) and spec.objective in META and spec.directions == "learned":
        h = gradient_learner(spec, model.heads.width, seeds).to(model.theta)
        return MetaFitness(h, exact=spec.objective == "meta-exact")
    found = signal(spec, model, seeds, setting.learner.lr, teacher, scale)
    if found is None:
        return None
    assert isinstance(found, LogitSignal)
    return Signalled(found, ramped=isinstance(spec, PseudoLabelsSpec))


def _supply(setting: Setting, stream: Stream, seeds: Sequence[int], place: Place, views: int) -> Supply:
    assert setting.semi is not None
    train, classes = stream.tasks[0].train, [str(label) for label in range(stream.width)]
    labelled = np.stack([choose_labelled(train.y, setting.semi.labels, seed, classes=classes) for seed in seeds])
    pool = Pool(train.x, stream.scale, stream.steps, device=place.device, dtype=place.dtype)
    extra = setting.policy.batch if uses_unlabelled(setting) else 0
    return Supply(pool, train.y, labelled, seeds, batch=setting.stream.batch, extra=extra, views=views)
