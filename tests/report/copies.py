"""Copies of the finished small run that tests may damage."""

import shutil
from pathlib import Path

from gradcast.store import RunDirectory
from tests.runs import finished


def copy_of_run(to: Path) -> RunDirectory:
    """The run, without its reports."""
    source, _ = finished()
    shutil.copytree(source.path, to, ignore=shutil.ignore_patterns("report*", "*.png", "weights.safetensors"))
    return RunDirectory(to)


def relabel(run: RunDirectory, old: str, new: str) -> None:
    """Another label for a row."""
    file = run.path / "spec.toml"
    text = file.read_text()
    assert f'label = "{old}"' in text
    file.write_text(text.replace(f'label = "{old}"', f'label = "{new}"'))


def unfinish(run: RunDirectory, row: str, lines: int) -> None:
    """The row as it is while its seeds have this many lines of accuracies."""
    (run.path / row / "env.json").unlink()
    for file in run.path.glob(f"{row}/seed-*/accuracy.csv"):
        file.write_text("".join(file.read_text().splitlines(keepends=True)[: 1 + lines]))
    for file in run.path.glob(f"{row}/seed-*/metrics.jsonl"):
        kept = [line for line in file.read_text().splitlines(keepends=True) if f'"task": {lines - 1}' not in line]
        file.write_text("".join(line for line in kept if f'"task": {lines}' not in line))
