"""What cannot work together, in one place, said before anything is trained.

``RULES`` are contradictions that a specification shows by itself, each with the reason. ``fit`` adds what only the
images can tell.
"""

from collections.abc import Callable
from dataclasses import dataclass

from gradcast.learners.acl.acl_table import AclSpec
from gradcast.learners.dcl import DclSpec
from gradcast.learners.gem import GemSpec
from gradcast.learners.hat import HatSpec
from gradcast.signals.predicted import PredictedSpec
from gradcast.signals.pseudo_labels import PseudoLabelsSpec
from gradcast.signals.registry import SIGNALS
from gradcast.specs.own_networks import all_heads, copied_teacher, images_alone, own_network, second_network, teacher
from gradcast.specs.spec import Setting
from gradcast.specs.traits import learner_has, signal_with
from gradcast.streams.named_augmentations import named_by
from gradcast.streams.pool_tables import OwnPoolSpec


@dataclass(frozen=True)
class Rule:
    """Why something cannot work, and the sentence for a setting in which it would have to."""

    about: str
    problem: Callable[[Setting], str | None]


def _hat_projects(setting: Setting) -> str | None:
    if isinstance(setting.learner, HatSpec) and not setting.policy.project and setting.signals:
        return "policy.project = false would let signals change what the gates of 'hat' protect: leave it out"
    return None


def _pairs_images(setting: Setting) -> str | None:
    learner, policy = setting.learner, setting.policy
    pairs = isinstance(learner, AclSpec) and learner.private_input == "labelled" and setting.signals
    if not pairs or policy.batch == setting.stream.batch:
        return None
    return (
        "learner.private_input = 'labelled' pairs labelled and unlabelled images: set policy.batch equal to "
        "stream.batch, or learner.private_input=unlabelled"
    )


def _adam(setting: Setting) -> str | None:
    found = any(isinstance(signal, PredictedSpec) and signal.optimizer == "adam" for signal in setting.signals)
    if not found or setting.plateau is None:
        return None
    return (
        "signal.optimizer = 'adam' counts the steps of all seeds at once, and schedule.name = 'plateau' starts "
        "optimizers anew seed by seed: set signal.optimizer=sgd"
    )


def _tau_per_sample(setting: Setting) -> str | None:
    if not any(isinstance(signal, PredictedSpec) and signal.tau == "per_sample" for signal in setting.signals):
        return None
    stream = setting.stream
    images = stream.labels if stream.labels != "all" else stream.samples
    ratio = stream.ratio if stream.labels == "all" else 1.0
    full = setting.schedule.name == "steps" or (images != "all" and round(ratio * images) % stream.batch == 0)
    if setting.policy.batch == stream.batch and full and setting.plateau is None:
        return None
    return (
        "signal.tau = 'per_sample' pairs labelled and unlabelled images: set policy.batch equal to stream.batch, and "
        "stream.samples to a multiple of it, without schedule.name = 'plateau', whose last batches may be short"
    )


def _truth(setting: Setting) -> str | None:
    signal = signal_with(setting, "truth")
    if signal is None or signal.pool not in ("", *(pool.name for pool in setting.pool)):  # which another rule refuses
        return None
    if isinstance(setting.pool[setting.pool_of(signal.pool)], OwnPoolSpec):
        return None
    return (
        f"the signal {signal.name!r} needs images whose labels are known: set pool.name=held-out, or unlabelled with "
        "stream.labels"
    )


def _protected(setting: Setting) -> str | None:
    asks = any(isinstance(signal, PseudoLabelsSpec) and signal.protected for signal in setting.signals)
    if not asks or isinstance(setting.learner, GemSpec | DclSpec):
        return None
    return "signal.protected needs the memories of 'gem' or 'dcl': leave it out, or choose one of them"


def _seen(setting: Setting) -> str | None:
    asks = any(isinstance(signal, PseudoLabelsSpec) and signal.outputs == "seen" for signal in setting.signals)
    if not asks or (setting.masked and not learner_has(setting, "one-head")):
        return None
    return (
        "signal.outputs = 'seen' chooses among all classes so far where a task's loss is over its own classes: set "
        "model.heads=masked, or leave it out"
    )


def _contrast(setting: Setting) -> str | None:
    signal = signal_with(setting, "pairs")
    if signal is None or setting.policy.batch > 1:
        return None
    return f"the signal {signal.name!r} compares images of a batch: set policy.batch to 2 or more"


def _frozen(setting: Setting) -> str | None:
    signal = signal_with(setting, "all-heads")
    if signal is None or setting.policy.batchnorm != "frozen":
        return None
    return (
        f"the signal {signal.name!r} compares passes with statistics of the unlabelled batch: set policy.batchnorm to "
        "'separate'"
    )


def _own_pool(setting: Setting) -> str | None:
    names = [pool.name for pool in setting.pool]
    unknown = next((signal for signal in setting.signals if signal.pool and signal.pool not in names), None)
    if unknown is not None:
        return f"signal.pool = {unknown.pool!r} is none of the row's pools ({', '.join(names)}); name one of them"
    if len(set(names)) < len(names):
        return f"the row has two pools called {max(names, key=names.count)!r}; leave one of them out"
    if "unlabelled" in names and setting.stream.labels == "all" and setting.signals:
        return "the pool 'unlabelled' is images without a label, and all have one: set stream.labels"
    return None


def _head_start(setting: Setting) -> str | None:
    ahead, names = setting.head_start, [pool.name for pool in setting.pool]
    if not ahead.steps:
        return None
    if learner_has(setting, "own-network"):
        return (
            f"the networks of {setting.learner.name!r} have parts for each task, which a head start cannot know: set "
            "head_start.steps=0, or choose another learner"
        )
    if ahead.pool and ahead.pool not in names:
        return f"head_start.pool = {ahead.pool!r} is none of the row's pools ({', '.join(names)}); name one of them"
    if names[setting.pool_of(ahead.pool)] == "unlabelled" and setting.stream.labels == "all":
        return "the pool 'unlabelled' is images without a label, and all have one: set stream.labels"
    for own in ahead.signal:
        if own.pool:
            return "all signals of a head start have the same pool: set head_start.pool, and leave theirs out"
        if "pairs" in SIGNALS[own.name].traits and ahead.batch < 2:
            return f"the signal {own.name!r} compares images: set head_start.batch to 2 or more"
    return None


def _unmixed(setting: Setting) -> str | None:
    if not learner_has(setting, "unmixed") or not any(getattr(own, "mix_up", 0) for own in setting.signals):
        return None
    return (
        f"the learner {setting.learner.name!r} needs the images of a batch as they are, and signal.mix_up puts "
        "mixtures in their place: set signal.mix_up=0.0, or choose another learner"
    )


def _augmented_once(setting: Setting) -> str | None:
    if not setting.stream.augment or not getattr(setting.learner, "augment", []):
        return None
    return (
        "stream.augment and learner.augment would change an image twice: leave stream.augment out, so that memories "
        "store images as they are, or learner.augment"
    )


def _frozen_stages(setting: Setting) -> str | None:
    model = setting.model
    if model.train == "all":
        return None
    if model.perturbation:
        return "model.perturbation changes weights that model.train freezes for all seeds alike: leave one of them out"
    if setting.head_start.steps and not setting.head_start.shared:
        return (
            "model.train freezes weights that all seeds share, and each seed has a head start of its own: set "
            "head_start.shared=true"
        )
    pixels = signal_with(setting, "pixels")
    if pixels is not None:
        return (
            f"the signal {pixels.name!r} changes pixels, and the layers that model.train leaves see none: leave "
            "model.train out, or choose another signal"
        )
    labelled = any(getattr(signal, "labelled", False) is True for signal in setting.signals)
    late = ["signal.labelled"] * labelled + [f"learner.{key}" for key in named_by(setting.learner)]
    if late:
        remedy = "set learner.strong=[]" if late[0] == "learner.strong" else "leave one of them out"
        return f"{late[0]} augments labelled images after they have passed the frozen stages of model.train: {remedy}"
    return None


def _epochs(setting: Setting) -> str | None:
    if setting.schedule.name == "constant" or setting.stream.epochs == 1:
        return None
    own = "schedule.epochs" if setting.plateau is not None else "schedule.steps"
    return f"schedule.name = {setting.schedule.name!r} has {own}: set that, and leave stream.epochs out"


def _halves(setting: Setting) -> str | None:
    signal = signal_with(setting, "halves")
    if signal is None or setting.policy.batch % 2 == 0:
        return None
    return (
        f"the signal {signal.name!r} mixes one half of the unlabelled images with the other: set policy.batch to an "
        "even number"
    )


def _replaced_weights(setting: Setting) -> str | None:
    if not learner_has(setting, "replaces-weights") or setting.evaluation.average == 1:
        return None
    return (
        f"evaluation.average is of the weights of a task's steps, and the learner {setting.learner.name!r} puts others "
        "in their place when the task ends: leave evaluation.average out"
    )


RULES = (
    Rule(
        "`acl`, `pnn`, `hat`, `independent` and `multimodal` build their own networks, and only from certain ones",
        own_network,
    ),
    Rule(
        "`distil` needs one network with the heads of all tasks; learners that build their own networks have none",
        all_heads,
    ),
    Rule("`mean-teacher` evaluates an average of one whole network, and no second average", teacher),
    Rule(
        "pseudo labels need a second network like the model, which `pnn`, `hat`, `independent` and `multimodal` cannot "
        "have",
        copied_teacher,
    ),
    Rule("`hat` protects old tasks by rewriting the gradient, so signals need `policy.project`", _hat_projects),
    Rule('`learner.private_input = "labelled"` pairs images, so both batches are equally large', _pairs_images),
    Rule("Adam has one counter for all seeds, and `plateau` gives single seeds a new optimizer", _adam),
    Rule('`signal.tau = "per_sample"` pairs images, so both batches are equally large and full', _tau_per_sample),
    Rule("`true-labels` needs images whose labels are known", _truth),
    Rule("`signal.protected` needs memories that can constrain a second network", _protected),
    Rule('`signal.outputs = "seen"` needs heads of all tasks in one network', _seen),
    Rule("`contrastive` needs at least two unlabelled images a step", _contrast),
    Rule("`distil` needs the statistics of the batch, so `policy.batchnorm` is not `frozen`", _frozen),
    Rule("a signal uses a pool of its row, and the pool `unlabelled` needs `stream.labels`", _own_pool),
    Rule("the schedules `steps` and `plateau` set how long a task trains, so `stream.epochs` is 1", _epochs),
    Rule("`model.train` freezes stages that are the same for all seeds and see images as they are", _frozen_stages),
    Rule("a head start has no tasks, so learners with parts for each task cannot use it", _head_start),
    Rule(
        "`er-ace`, `x-der`, `lwf`, `hal`, `icarl-original`, `bic`, `lucir` and `cfa` need plain images, not mixtures "
        "of them",
        _unmixed,
    ),
    Rule("an image is augmented by the stream or by the learner, not by both", _augmented_once),
    Rule("`icl` mixes one half of the unlabelled images with the other half, so their number must be even", _halves),
    Rule("`cfa` replaces the weights at the end of a task, so averaged weights make no sense", _replaced_weights),
    Rule(
        "`dual-student` and `co-training` train a second network like the model, so learners with parts for each "
        "task cannot use them",
        second_network,
    ),
    Rule(
        '`vat` and `tnar` change images, and `learner.private_input = "labelled"` pairs them with others', images_alone
    ),
)


def contradiction(setting: Setting) -> str | None:
    """The first thing in a setting that cannot work, in a sentence."""
    found = (rule.problem(setting) for rule in RULES)
    return next((sentence for sentence in found if sentence is not None), None)
