"""Methods of other people, from outside the package: by import path, and by an installed package."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
PACKAGE = '''
from typing import Literal

import gradcast
from own_learner import Anchored
from own_signal import Entropy


class AnchoredTable(gradcast.DescentTable):
    """Weights are drawn back to where the last task left them."""

    name: Literal["anchored"]
    strength: float = 0.1  # weight of the penalty


class EntropyTable(gradcast.SignalTable):
    """The network shall be sure of unlabelled images."""

    name: Literal["entropy"]
    weight: float = 0.1


LEARNER = gradcast.LearnerEntry(
    ("anchored",), AnchoredTable, lambda table, context: Anchored(table.strength), "anchored", "a copy of the weights"
)
SIGNAL = gradcast.SignalEntry(("entropy",), EntropyTable, lambda table, context: Entropy(table.weight), "entropy")
'''
POINTS = """
[gradcast.learners]
anchored = mypackage:LEARNER
broken = mypackage:MISSING

[gradcast.signals]
entropy = mypackage:SIGNAL
"""
SMALL = ["--threads", "1", "--out", "out", "--set", "seeds=[0,1]", "--set", "stream.tasks=2"]


def gradcast(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The command in its own process, where nothing of the tests is imported."""
    environment = os.environ | {"PYTHONPATH": f"{cwd}{os.pathsep}{os.environ.get('PYTHONPATH', '')}", "COLUMNS": "80"}
    command = [sys.executable, "-m", "gradcast", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=180, env=environment)


@pytest.mark.parametrize(("name", "row"), [("own_learner", "anchored weights"), ("own_signal", "ER + entropy")])
def test_examples_run_as_they_say(tmp_path: Path, name: str, row: str) -> None:
    for file in EXAMPLES.glob(f"{name}.*"):
        shutil.copy(file, tmp_path)
    done = gradcast("run", f"{name}.toml", *SMALL, "--set", "stream.samples=150", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["rows"]
    assert found[1]["label"] == row
    assert (tmp_path / found[1]["name"]).exists() is False  # everything went to --out


def test_a_packages_methods_have_names(tmp_path: Path) -> None:
    for file in EXAMPLES.glob("own_*.py"):
        shutil.copy(file, tmp_path)
    (tmp_path / "mypackage.py").write_text(PACKAGE)
    facts = tmp_path / "mypackage-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: mypackage\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(POINTS)
    listed = gradcast("methods", "anchored", cwd=tmp_path)
    assert "strength = 0.1  weight of the penalty" in listed.stdout
    assert "(from mypackage)" in " ".join(listed.stdout.split())
    assert "the learner 'broken' is left out" in listed.stderr
    chosen = ["learner.name=anchored", "signal.name=entropy", "stream.samples=40"]
    done = gradcast("run", "digits", *SMALL, *(part for own in chosen for part in ("--set", own)), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "anchored + entropy" in done.stdout
    (run,) = (path.parent for path in (tmp_path / "out").glob("*/spec.toml"))
    content = json.loads((run / "predicted" / "stream.json").read_text())
    assert {"learner", "signal"} <= content.keys()  # digests of the package's source
