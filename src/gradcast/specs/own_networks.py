"""What learners that make networks of their own cannot be combined with."""

from gradcast.learners.acl.acl_table import AclSpec
from gradcast.learners.learner_entry import LearnerEntry
from gradcast.learners.registry import LEARNERS
from gradcast.signals.pseudo_labels import PseudoLabelsSpec
from gradcast.specs.spec import Setting
from gradcast.specs.traits import learner_has, signal_with


def own_network(setting: Setting) -> str | None:
    """The learner makes its networks of certain ones, as they are."""
    if not learner_has(setting, "own-network"):
        return None
    entry, model = LEARNERS[setting.learner.name], setting.model
    assert isinstance(entry, LearnerEntry)
    left = model.heads, model.weights, model.perturbation, model.train, model.rates
    if model.name in entry.models and left == ("auto", "", 0, "all", {}):
        return None
    return (
        f"the learner {setting.learner.name!r} makes its networks of model.name = "
        f"{' or '.join(map(repr, entry.models))}: set that, and leave model.heads, model.weights, model.perturbation, "
        "model.train and model.rates out"
    )


def all_heads(setting: Setting) -> str | None:
    """A signal needs one network with the heads of all tasks."""
    signal = signal_with(setting, "all-heads")
    if signal is None or not learner_has(setting, "own-network"):
        return None
    return (
        f"the signal {signal.name!r} compares one network's heads of all tasks, and {setting.learner.name!r} has no "
        "such network: choose another signal or learner"
    )


def teacher(setting: Setting) -> str | None:
    """A signal evaluates an average of one whole network."""
    signal = signal_with(setting, "evaluates-teacher")
    if signal is None:
        return None
    if learner_has(setting, "own-network"):
        return (
            f"the signal {signal.name!r} evaluates an average of the whole network, and {setting.learner.name!r} has "
            "parts of it for each task: choose another signal or learner"
        )
    if setting.evaluation.average > 1:
        return f"the signal {signal.name!r} evaluates an average already: leave evaluation.average out"
    return None


def second_network(setting: Setting) -> str | None:
    """A signal trains a second network as the model is trained."""
    signal = signal_with(setting, "second-network")
    if signal is None or not learner_has(setting, "own-network"):
        return None
    return (
        f"the signal {signal.name!r} trains a second network like the model, and that of {setting.learner.name!r} has "
        "parts for each task: choose another signal or learner"
    )


def copied_teacher(setting: Setting) -> str | None:
    """Pseudo labels come from a second network like the model."""
    found = any(isinstance(signal, PseudoLabelsSpec) for signal in setting.signals)
    if not found or not learner_has(setting, "own-network") or isinstance(setting.learner, AclSpec):
        return None
    return (
        f"pseudo labels come from a second network like the model, and that of {setting.learner.name!r} has parts for "
        "each task: choose another signal or learner"
    )


def images_alone(setting: Setting) -> str | None:
    """A signal changes the images, and the network sees labelled ones behind them."""
    signal = signal_with(setting, "changes-images")
    if signal is None or not isinstance(setting.learner, AclSpec) or setting.learner.private_input != "labelled":
        return None
    return (
        f"the signal {signal.name!r} changes unlabelled images, and learner.private_input = 'labelled' shows labelled "
        "ones behind them: set learner.private_input=unlabelled"
    )
