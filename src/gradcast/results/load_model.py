"""``gradcast.load_model``: a trained network out of a run directory."""

import math
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor, nn

from gradcast.data.images import Shape, is_vector
from gradcast.errors import GradcastError, message_of, warn
from gradcast.learners.registry import LEARNERS
from gradcast.replicas.heads import Heads
from gradcast.results.finished_rows import locate
from gradcast.results.preprocess import Preprocess
from gradcast.results.run_result import RunResult
from gradcast.results.trained_model import TaskNetworks, TrainedModel
from gradcast.runs.directory import RunDirectory, damaged
from gradcast.runs.manifest import checked_bytes
from gradcast.specs import build
from gradcast.specs.spec import Setting, Spec
from gradcast.specs.table import nearest
from gradcast.streams.scale import Scale
from gradcast.streams.scenarios import class_order, rotation
from gradcast.streams.stream import TASK_CLASSES, Stream

LARGEST = 2**28  # numbers in an image; a file that claims more is damaged
# Names of weights in a file: of a mean teacher, which is what was evaluated; else of the model.
PREFIXES = ("signal.average.", "model.")
OWN = re.compile(r"task-(\d+)\.(.+)")  # a weight that only one task has


def load_model(
    run: str | os.PathLike[str] | RunResult, row: str | None = None, seed: int | None = None
) -> TrainedModel:
    """A trained network as an ordinary ``nn.Module`` on the CPU, in evaluation mode.

    It has the weights that were evaluated at the end of the stream. ``model(model.preprocess(images))`` gives the
    logits of all columns, ``model.classes`` their names, and ``model.task_columns(task)`` the columns of one task. If
    the network is a class of your own, that class is imported from where the specification says.

    Args:
        run: path of a run directory or of one row in it, or what ``gradcast.run`` returned.
        row: name of a row; may be left out where there is only one.
        seed: one of the run's seeds; the lowest if left out.
    """
    given = run.directory if isinstance(run, RunResult) else Path(run)
    named = locate(given)
    name = _row(named.spec, named.row, row, given)
    locate(named.run.path / name)  # an unfinished row is refused
    setting = next(own.setting for own in named.spec.rows if own.name == name)
    if "own-scores" in LEARNERS[setting.learner.name].traits:
        warn(
            f"the accuracies of {name!r} are those of {setting.learner.name!r}, which does not answer by the largest "
            "logit; the loaded network does"
        )
    return _loaded(named.run, name, setting, _seed(named.spec, seed, given))


def _row(spec: Spec, located: str | None, asked: str | None, given: Path) -> str:
    names = [row.name for row in spec.rows] if located is None else [located]
    if asked is None and len(names) > 1:
        raise GradcastError(f"{given} has several rows; choose one: row={' or row='.join(map(repr, names))}")
    if asked is not None and asked not in names:
        raise GradcastError(f"there is no row {asked!r} in {given}{nearest(asked, names)}")
    return asked or names[0]


def _seed(spec: Spec, asked: int | None, given: Path) -> int:
    if asked is not None and asked not in spec.seeds:
        raise GradcastError(f"there is no seed {asked} in {given}; its seeds: {', '.join(map(str, spec.seeds))}")
    return min(spec.seeds) if asked is None else asked


def _loaded(run: RunDirectory, row: str, setting: Setting, seed: int) -> TrainedModel:
    run.check(row)
    facts, file = run.drawn(row), run.seed(row, seed) / "weights.safetensors"
    try:
        shape, width = _sizes(facts)
        stream = Stream.without_images(shape, _task_classes(facts, setting.stream.task_count, width, seed))
        preprocess = _preprocess(facts, shape)
        names = _names(facts, stream.task_classes)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise damaged(run.path / row / "stream.json", error, run.path / row) from None
    try:
        state = load(checked_bytes(file))
    except (SafetensorError, OSError, ValueError) as error:
        raise damaged(file, error) from None
    network, own = _network(setting, stream, state, file)
    heads = Heads.even(width, setting.stream.task_count, masked=True) if own else build.heads(setting, stream)
    return TrainedModel(network, _column_names(heads, names), preprocess, heads.task_columns).eval()


def _sizes(facts: dict[str, Any]) -> tuple[Shape, int]:
    shape, width = tuple(int(side) for side in facts["shape"]), int(facts["classes_per_task"])
    if len(shape) not in (1, 3) or min(*shape, width) < 1 or math.prod(shape) > LARGEST:
        raise ValueError("its sizes are impossible")
    return shape, width


def _task_classes(facts: dict[str, Any], tasks: int, width: int, seed: int) -> list[tuple[int, ...]]:
    """The classes of every task, as numbers of the source."""
    if (listed := facts.get(TASK_CLASSES)) is not None:
        found = [tuple(int(label) for label in own) for own in listed]
        if len(found) != tasks or min(map(len, found)) < 1 or max(map(len, found)) != width:
            raise ValueError("its tasks and classes do not fit the specification")
        return found
    order = facts.get("class_order")
    if order is None:  # every task has all classes
        return [tuple(range(width))] * tasks
    if isinstance(order, str):  # every seed has its own
        order = class_order(seed, int(re.findall(r"\d+", order)[-1]))[: tasks * width]
    rows: list[list[int]] = np.array(order, dtype=np.int64).reshape(tasks, width).tolist()
    return [tuple(row) for row in rows]


def _names(facts: dict[str, Any], task_classes: Sequence[tuple[int, ...]]) -> list[list[str]]:
    """Names of the classes of every task; numbers where the run has no names."""
    known = facts.get("classes") or [str(label) for label in range(max(map(max, task_classes)) + 1)]
    return [[str(known[label]) for label in row] for row in task_classes]


def _column_names(heads: Heads, names: Sequence[Sequence[str]]) -> list[str]:
    """The name of every column; where tasks use one for different classes, all of their names."""
    found: list[dict[str, None]] = [{} for _ in range(heads.logits)]
    for columns, own in zip(heads.task_columns, names, strict=True):
        for column, name in zip(columns, own, strict=True):
            found[column][name] = None
    return [" / ".join(each) for each in found]


def _preprocess(facts: dict[str, Any], shape: Shape) -> Preprocess:
    mean, std = (tuple(float(value) for value in facts[name]) for name in ("mean", "std"))
    if not len(mean) == len(std) or len(mean) not in (0, shape[0]):
        raise ValueError("its scale does not fit its shape")
    if is_vector(shape) and facts.get("angles"):
        raise ValueError("its vectors cannot be turned")
    origins = [rotation(shape, float(angle)) for angle in facts.get("angles", ())]
    origins += [np.array(order, dtype=np.int64) for order in facts.get("permutations", ())]
    if any(sorted(order) != list(range(math.prod(shape))) for order in facts.get("permutations", ())):
        raise ValueError("its permutations do not fit its shape")
    return Preprocess(shape, Scale(mean, std, is_vector(shape)), origins)


def _network(setting: Setting, stream: Stream, state: dict[str, Tensor], file: Path) -> tuple[nn.Module, bool]:
    """The network with its weights, and whether every task has weights of its own."""
    prefix = next((own for own in PREFIXES if any(name.startswith(own) for name in state)), "")
    common = {
        name.removeprefix(own): tensor
        for own in ("model.", prefix)  # frozen stages are the model's alone
        for name, tensor in state.items()
        if name.startswith(own)
    }
    tasks: dict[int, dict[str, Tensor]] = {}
    for name, tensor in state.items():
        if found := OWN.fullmatch(name):
            tasks.setdefault(int(found[1]), {})[found[2]] = tensor
    # initial weights are replaced at once, so that the file they came from is not needed
    plain = setting.model_copy(
        update={"model": setting.model.model_copy(update={"weights": "", "perturbation": 0.0, "train": "all"})}
    )
    made = [_filled(build.network(plain, stream), common | tasks[task], file) for task in sorted(tasks)]
    if not made:
        return _filled(build.network(plain, stream), common, file), False
    if len(made) != setting.stream.task_count:
        raise damaged(file, ValueError(f"weights of {len(made)} tasks, where there are {setting.stream.task_count}"))
    return TaskNetworks(made, stream.width), True


def _filled(network: nn.Module, state: dict[str, Tensor], file: Path) -> nn.Module:
    try:
        network.load_state_dict(state)
    except (RuntimeError, KeyError) as error:
        text = " ".join(str(error).split())
        raise damaged(file, ValueError(message_of(ValueError(text)))) from None
    return network
