"""The table ``[head_start]`` of a specification."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from gradcast.signals.contrastive import ContrastiveSpec
from gradcast.signals.registry import SIGNALS, SignalSpec
from gradcast.specs.table import Momentum, Natural, Positive, Probability, Rate, Table, Weight, nearest

# It is alone here, so its weight is the whole.
ALONE = ContrastiveSpec(
    name="contrastive",
    weight=1.0,
    head=[256, 128],
    augment=["resized-crop", "flip", "colour-jitter", "greyscale"],
)
DEFAULTS = {key: getattr(ALONE, key) for key in ("weight", "head", "augment")}  # for every signal that has such a key


def _tables(raw: object) -> object:
    """Signals by name or by table, one or several."""
    given = raw if isinstance(raw, list) else [raw]
    return [_table({"name": own} if isinstance(own, str) else own) for own in given]


def _table(own: object) -> object:
    known = label_free()
    if not isinstance(own, dict) or not isinstance(own.get("name"), str):
        return own
    if own["name"] not in known:
        about = "needs labels or labelled gradients" if own["name"] in SIGNALS else "is unknown"
        raise ValueError(f"head_start.signal: {own['name']!r} {about}{nearest(own['name'], known)}")
    fields = SIGNALS[own["name"]].table.model_fields
    return {key: value for key, value in DEFAULTS.items() if key in fields} | own


def label_free() -> list[str]:
    """Signals that need nothing but unlabelled images."""
    return [name for name, entry in SIGNALS.items() if "label-free" in entry.traits]


class HeadStartSpec(Table):
    """Signals that need no labels train the network on a pool before the first task."""

    steps: Natural = 0  # 0: no head start
    batch: Positive = 512  # images a step, each in as many views as the signals want
    signal: Annotated[list[SignalSpec], BeforeValidator(_tables), Field(min_length=1)] = [ALONE]  # label-free ones
    pool: str = ""  # name of one of the row's pools; empty: the first
    optimizer: Literal["sgd", "adamw"] = "sgd"  # of the head start alone
    lr: Rate = 0.12  # at its peak
    momentum: Momentum = 0.9  # of sgd
    weight_decay: Weight = 1e-4  # of either optimizer
    warm_up: Probability = 0.1  # share of the steps in which the rate rises; then it falls to zero by a cosine
    shared: bool = False  # one for all seeds; otherwise each has its own
    probes: Natural = 10  # how often the features are looked at: nearest neighbours among the first task's images

    @model_validator(mode="after")
    def _momentum_is_of_sgd(self) -> "HeadStartSpec":
        if self.optimizer != "sgd" and self.momentum not in (0, HeadStartSpec.model_fields["momentum"].default):
            raise ValueError("head_start.momentum is of the optimizer 'sgd'; leave it out")
        if any(getattr(own, "labelled", False) for own in self.signal):
            raise ValueError("head_start.signal.labelled asks for labelled images, and there are none before a stream")
        return self
