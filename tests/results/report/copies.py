"""Copies of the finished small run that tests may damage."""

import re
import shutil
from pathlib import Path

import numpy as np

from gradcast.results.feature_files import write_feature_map
from gradcast.results.feature_map import FeatureMap, feature_map
from gradcast.results.quick import QUICK_LOOK
from gradcast.runs.directory import RunDirectory
from gradcast.runs.manifest import NAME
from tests.trained_runs import few_labels, finished


def copy_of_run(to: Path, *, few: bool = False) -> RunDirectory:
    """The run, or that with few labels, without its reports, and without manifests, which would find any damage."""
    source, _ = few_labels() if few else finished()
    left_out = ("report*", "*.png", "weights.safetensors", NAME)
    shutil.copytree(source.path, to, ignore=shutil.ignore_patterns(*left_out))
    return RunDirectory(to)


def relabel(run: RunDirectory, old: str, new: str) -> None:
    """Another label for a row."""
    file = run.path / "spec.toml"
    text = file.read_text()
    assert f'label = "{old}"' in text
    file.write_text(text.replace(f'label = "{old}"', f'label = "{new}"'))


def as_quick_look(run: RunDirectory) -> None:
    """The run under such a title."""
    file = run.path / "spec.toml"
    text = file.read_text()
    changed = re.sub(r'^title = ".*"$', f'title = "{QUICK_LOOK}"', text, count=1, flags=re.MULTILINE)
    assert changed != text
    file.write_text(changed)


def with_portrait(run: RunDirectory, row: str) -> FeatureMap:
    """A row that has shared and private features."""
    random = np.random.default_rng(1)
    shared, private = ([random.normal(size=(30, 4)) + apart * task for task in range(2)] for apart in (0, 9))
    found = feature_map(shared, private)
    write_feature_map(run.seed(row, run.spec.seeds[0]), found)
    return found


def unfinish(run: RunDirectory, row: str, lines: int) -> None:
    """The row as it is while its seeds have this many lines of accuracies."""
    (run.path / row / "env.json").unlink()
    for file in run.path.glob(f"{row}/seed-*/accuracy.csv"):
        file.write_text("".join(file.read_text().splitlines(keepends=True)[: 1 + lines]))
    for file in run.path.glob(f"{row}/seed-*/metrics.jsonl"):
        kept = [line for line in file.read_text().splitlines(keepends=True) if f'"task": {lines - 1}' not in line]
        file.write_text("".join(line for line in kept if f'"task": {lines}' not in line))
