"""What to try next, as a command: more seeds where the verdict is open, else what has helped elsewhere."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from gradcast.learners.registry import LEARNERS
from gradcast.networks.registry import MlpSpec
from gradcast.results.quick import mark
from gradcast.results.result import RowResult
from gradcast.results.statistics import fewest_seeds
from gradcast.results.verdict import Paired
from gradcast.specs.controls import pools_used, role
from gradcast.specs.spec import Spec
from gradcast.specs.text import load, presets

# What the presets *-best use on images, as TOML.
BEST = {
    "signal.name": "contrastive",
    "signal.weight": "0.15",
    "signal.labelled": "true",
    "policy.p": "1.0",
    "policy.batch": "64",
    "policy.batchnorm": "separate",
    "head_start.steps": "6000",
}
BEST_AVERAGE = "evaluation.average=200"
AVERAGED = "evaluation.average=33"  # what they use on MNIST's streams, where unlabelled images add nothing


def advice(spec: Spec, results: Sequence[RowResult], directory: Path) -> str | None:
    """A sentence that ends in a command, where signals were compared and none helped."""
    if spec.rows[0].setting.one_task is not None or mark(spec) or _only_in_python(spec):
        return None  # a quick look advises nothing
    signals = {row.name for row in spec.rows if pools_used(row.setting) and role(row) == "claim"}
    compared = [own.paired for own in results if own.name in signals and own.paired is not None]
    if not compared or any(own.kind == "helps" for own in compared):
        return None
    return _more_seeds(spec, compared, directory) or _what_helps(spec, signals, compared, directory)


def _more_seeds(spec: Spec, compared: Sequence[Paired], directory: Path) -> str | None:
    needed = fewest_seeds(max(own.family for own in compared))
    if not any(own.kind == "open" for own in compared) or len(spec.seeds) >= needed:
        return None
    return f"{len(spec.seeds)} of {needed} seeds: for a verdict run {_command(spec, directory, seeds=needed)}"


def _what_helps(spec: Spec, signals: set[str], compared: Sequence[Paired], directory: Path) -> str | None:
    """Only where every signal has its verdict: an open one has not failed."""
    used = {signal.name for row in spec.rows for signal in row.setting.signals}
    if any(own.kind == "open" for own in compared) or "contrastive" in used:
        return None
    if "own-network" in LEARNERS[spec.rows[0].setting.learner.name].traits:
        return None  # contrastive signals need features of one network
    if isinstance(spec.rows[0].setting.model, MlpSpec):
        return f"No signal helped here. Averaged weights help MLPs: {_command(spec, directory, AVERAGED)}"
    best = f"{spec.name}-best"
    row = next(own.name for own in spec.rows if own.name in signals)
    settings = [BEST_AVERAGE, *(f"row.{row}.{key}={value}" for key, value in BEST.items())]
    seeds = f" --seeds {len(spec.seeds)}"
    command = f"gradcast run {best}{seeds}" if best in presets() else _command(spec, directory, *settings)
    return f"No signal helped here. A head start, averaged weights and a contrastive signal help on images: {command}"


def _command(spec: Spec, directory: Path, *settings: str, seeds: int | None = None) -> str:
    """Of a preset by its name, else of the directory's own specification."""
    named = spec.name in presets() and _same_but_for_seeds(spec, load(spec.name))
    words = ["gradcast", "run", spec.name if named else str(directory / "spec.toml")]
    words += [word for setting in settings for word in ("--set", setting)]
    count = seeds or (len(spec.seeds) if named and spec.seeds != load(spec.name).seeds else None)
    return shlex.join([*words, *(["--seeds", str(count)] if count else [])])


def _same_but_for_seeds(spec: Spec, preset: Spec) -> bool:
    return spec == preset.model_copy(update={"seeds": spec.seeds})


def _only_in_python(spec: Spec) -> bool:
    """Whether images came from the caller, which no command can say."""
    return any("python" in (row.setting.stream.source, *(pool.name for pool in row.setting.pool)) for row in spec.rows)
