"""Signals in words, for labels."""

from gradcast.signals.registry import (
    LabelsTable,
    MetaGradientSpec,
    NoiseSpec,
    NoSignalSpec,
    PredictedSpec,
    PseudoLabelsSpec,
    SignalSpec,
)

WORDS = {
    "one-hot": "one-hot pseudo labels",
    "soft": "soft pseudo labels",
    "true-labels": "true labels",
    "meta-gradient": "meta-gradient",
    "forward-only": "unlabelled pass only",
    "contrastive": "contrastive",
    "distil": "distillation",
    "rotation": "rotation",
}


def describe(spec: SignalSpec) -> str:
    """A signal in a few words, for labels; nothing for none."""
    match spec:
        case NoSignalSpec():
            return ""
        case PredictedSpec():
            return "predicted gradients" if spec.directions == "learned" else "frozen directions"
        case NoiseSpec():
            return "random directions" if spec.scaled else f"{spec.distribution} noise"
        case _:
            return ", ".join([WORDS[spec.name], *(word for word, applies in _options(spec).items() if applies)])


def _options(spec: SignalSpec) -> dict[str, bool]:
    """What a label says of options, where they are on."""
    found = {"scaled": isinstance(spec, LabelsTable) and spec.scaled}
    if isinstance(spec, PseudoLabelsSpec):
        found |= {"all classes seen": spec.outputs == "seen", "protected teacher": spec.protected}
    return found | {"mix-up": isinstance(spec, MetaGradientSpec) and spec.mix_up > 0}
