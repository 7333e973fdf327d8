from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gradcast.results.report.read import Found, RowState, Run, read_run
from gradcast.results.report.summary import counts, facts, findings, heading, standing
from tests.results.report.copies import copy_of_run, unfinish
from tests.trained_runs import small


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return read_run(copy_of_run(tmp_path_factory.mktemp("runs") / "digits-1").path)


def test_a_verdict_for_each_row_but_the_first(run: Run) -> None:
    found = findings(run)
    assert [(own.kind, own.label, own.sentence) for own in found] == [
        (own.paired.kind, own.label, own.paired.verdict) for own in run.results[1:] if own.paired is not None
    ]


def test_what_cannot_be_said_is_said(run: Run, tmp_path: Path) -> None:
    assert findings(replace(run, results=[]))[0].sentence.startswith("no row is finished")
    assert "the first row, GEM, is missing" in findings(replace(run, results=run.results[1:]))[0].sentence
    assert findings(replace(run, results=run.results[:1]))[0].sentence == "one row, nothing to compare it with"
    unequal = replace(run.results[1], paired=None)
    assert findings(replace(run, results=[run.results[0], unequal]))[0].sentence.startswith("not compared")


def test_a_base_that_waits_for_the_others_says_so(tmp_path: Path) -> None:
    partial = copy_of_run(tmp_path / "digits-3")
    for row in ("predicted", "random"):
        unfinish(partial, row, lines=1)
    (found,) = findings(read_run(partial.path))
    assert found.sentence == "the other rows are not finished yet"


def test_counts(run: Run, tmp_path: Path) -> None:
    assert counts([run]) == "1 run, 3 rows of 3 seeds, all finished."
    partial = copy_of_run(tmp_path / "digits-2")
    unfinish(partial, "random", lines=1)
    assert counts([run, read_run(partial.path)]) == "2 runs, 6 rows of 3 seeds, 5 of them finished."
    fewer = replace(run, spec=run.spec.model_copy(update={"seeds": [0]}))
    assert counts([run, fewer]) == "2 runs, 6 rows of 1 to 3 seeds, all finished."


def test_title_and_facts(run: Run) -> None:
    assert heading(Found(Path("/x/runs"), [run], [])) == run.spec.title
    assert heading(Found(Path("/x/runs"), [run, run], [])) == "2 runs in the folder runs"
    quick = replace(run, spec=small('title="QUICK LOOK, not a result"'))
    assert heading(Found(Path("/x/runs"), [quick, quick], [])) == "QUICK LOOK, not a result: 2 runs in the folder runs"
    assert heading(Found(Path("/x/runs"), [quick, run], [])) == "2 runs in the folder runs"
    assert facts(run) == [
        "3 rotated tasks of digits",
        "mlp",
        "3 seeds",
        "float32",
        "unlabelled images: patches",
    ]


@pytest.mark.parametrize(
    ("done", "said"),
    [
        ([-1, -1], "not begun"),
        ([0, 0], "0 of 20 tasks"),
        ([7, 7], "7 of 20 tasks"),
        ([20, -1], "between 0 and 20 of 20 tasks, seed by seed"),
    ],
)
def test_how_far_a_row_is(done: list[int], said: str) -> None:
    curves = {"accuracy": np.zeros((2, 20))}
    assert standing(RowState("a", "A", 0, False, done, 20, curves, "", {})) == said
