"""What to try next, after a run whose unlabelled images did not help."""

from collections.abc import Sequence

from gradcast.learners.registry import LEARNERS
from gradcast.networks.registry import MlpSpec
from gradcast.results.quick import mark
from gradcast.results.result import RowResult
from gradcast.specs.spec import Spec
from gradcast.specs.text import presets

# What the presets *-best use on images, as TOML.
BEST = {
    "signal.name": '"contrastive"',
    "signal.weight": "0.15",
    "signal.labelled": "true",
    "policy.p": "1.0",
    "policy.batch": "64",
    "policy.batchnorm": '"separate"',
    "evaluation.average": "200",
}
AVERAGED = "evaluation.average = 33"  # what they use on MNIST's streams, where unlabelled images add nothing


def advice(spec: Spec, results: Sequence[RowResult]) -> str | None:
    """A sentence where signals were compared over several seeds and none helped; a run that has the best one knows."""
    if spec.rows[0].setting.one_task is not None or mark(spec):  # a quick look advises nothing
        return None
    signals = {row.name: row.setting.signals for row in spec.rows if row.setting.signals}
    compared = [r.paired for r in results if r.name in signals and r.paired is not None and len(r.seeds) > 1]
    helped = any(paired.shown > 0 for paired in compared)
    if not compared or helped or any(signal.name == "contrastive" for own in signals.values() for signal in own):
        return None
    if "own-network" in LEARNERS[spec.rows[0].setting.learner.name].traits:
        return None  # contrastive signals need features of one network
    if isinstance(spec.rows[0].setting.model, MlpSpec):
        return f"No signal helped here, nor has any helped an MLP so far; averaged weights do: try {AVERAGED}"
    best = f"{spec.name}-best"
    settings = ", ".join(f"{key} = {value}" for key, value in BEST.items())
    remedy = f"gradcast run {best}" if best in presets() else f"a row with {settings}"
    return f"No signal helped here; what does on images is averaged weights and a contrastive signal: try {remedy}"
