"""What cannot work together where few images are labelled, said before anything is trained."""

from gradcast.errors import GradcastError
from gradcast.learners.registry import FinetuneSpec, MeanTeacherSpec, MgSpec
from gradcast.semi.labels import choose_labelled, others
from gradcast.semi.supply import check_unlabelled
from gradcast.signals.policy import Policy
from gradcast.signals.registry import NoiseSpec, NoSignalSpec, PredictedSpec, PseudoLabelsSpec
from gradcast.specs.spec import EvaluationSpec, Setting
from gradcast.streams.pool_tables import PatchesSpec
from gradcast.streams.stream import Stream

LEARNERS = (FinetuneSpec, MgSpec, MeanTeacherSpec)
SIGNALS = (NoSignalSpec, PredictedSpec, NoiseSpec, PseudoLabelsSpec)


def uses_unlabelled(setting: Setting) -> bool:
    """Whether any part of a step looks at images without labels."""
    return not (isinstance(setting.learner, FinetuneSpec) and isinstance(setting.signal, NoSignalSpec))


def check_semi(setting: Setting, stream: Stream) -> None:
    """Raise where the tables of a row with [semi] do not fit, or its images do not suffice."""
    assert setting.semi is not None
    problem = _problem(setting)
    if problem is not None:
        raise GradcastError(problem)
    train, classes = stream.tasks[0].train, [str(label) for label in range(stream.width)]
    chosen = choose_labelled(train.y, setting.semi.labels, 0, classes=classes)
    if uses_unlabelled(setting):
        check_unlabelled(len(others(len(train), chosen)), setting.policy.batch)


def _problem(setting: Setting) -> str | None:
    stream, policy, learner, signal = setting.stream, setting.policy, setting.learner, setting.signal
    everywhere = Policy(p=1.0, batch=policy.batch)
    problems = {
        "[semi] is one task of all classes: set stream.scenario=split, stream.tasks=1 and leave "
        "stream.classes_per_task and stream.class_order out": (
            (stream.scenario, stream.tasks, stream.classes_per_task, stream.class_order)
            != ("split", 1, "even", "natural")
        ),
        "[semi] counts steps and labels: set semi.steps and semi.labels, and leave stream.epochs, stream.samples and "
        "stream.ratio out": (stream.epochs, stream.samples, stream.ratio) != (1, "all", 1.0),
        "[semi] is one task, which has one head: leave model.heads out": setting.model.heads != "auto",
        f"[semi] is for the learners finetune (labels alone), mg and mean-teacher, not {learner.name!r}": (
            not isinstance(learner, LEARNERS)
        ),
        f"[semi] takes the signals none, predicted, noise, one-hot and soft, not {signal.name!r}": (
            not isinstance(signal, SIGNALS)
        ),
        "in [semi] every step has unlabelled images, which join the labelled ones: set policy.p=1.0 and nothing else "
        "of policy but batch": uses_unlabelled(setting) and policy != everywhere,
        "the unlabelled images of [semi] are training images without their label: leave [pool] out": (
            setting.pool != PatchesSpec()
        ),
        "[semi] tests on all images, with the weights themselves: leave [evaluation] out": (
            setting.evaluation != EvaluationSpec()
        ),
        f"mix-up pairs labelled and unlabelled images: set policy.batch equal to stream.batch, {stream.batch}, or "
        "learner.mix_up=0.0": isinstance(learner, MgSpec) and learner.mix_up > 0 and policy.batch != stream.batch,
    }
    return next((sentence for sentence, found in problems.items() if found), None)
