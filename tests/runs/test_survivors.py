import json
from pathlib import Path

import numpy as np
import pytest

from gradcast.errors import Diverged, GradcastError
from gradcast.results.comparison import compare
from gradcast.results.report.read import read_runs
from gradcast.results.report.write import write_html
from gradcast.results.run_result import RunResult
from gradcast.runs.checkpoint.keeper import Safety
from gradcast.runs.directory import DIVERGED, RunDirectory
from gradcast.runs.run import run
from gradcast.runs.survivors import train_survivors
from gradcast.specs.spec import Spec
from tests.trained_runs import small

WILD = ("row.random.learner.name=finetune", "row.random.learner.lr=1e14", "row.random.signal.name=none")


def spec(*seeds: int) -> Spec:
    """Rows base and random; with a learning rate beyond reason random loses seeds 0 and 2."""
    whole = small(f"seeds={list(seeds)}", *WILD)
    return whole.model_copy(update={"rows": [whole.rows[0], whole.rows[2]]})


def made(out: Path, *seeds: int) -> RunDirectory:
    with pytest.warns(UserWarning, match=r"row 'random': seeds lost: .*not finite at step .*; the others start over"):
        return run(spec(*seeds), out=out, device="cpu")[0]


def test_seeds_that_diverge_stay_in_the_files_with_their_reason(tmp_path: Path) -> None:
    directory = made(tmp_path, 0, 1, 2, 4)
    told = json.loads((directory.path / "random" / DIVERGED).read_text())["seeds"]
    assert told.keys() == {"0", "2"}
    assert all("not finite at step" in reason for reason in told.values())
    row = json.loads((directory.path / "result.json").read_text())[1]
    assert row["diverged"] == told
    assert row["seeds"].keys() == {"1", "4"}
    assert row["against_first_row"]["diverged"]["variant"] == told
    assert row["against_first_row"]["shift"]["seeds"] == 4  # the test has all of them


def test_every_sentence_about_the_row_counts_them(tmp_path: Path) -> None:
    directory = made(tmp_path, 0, 1, 2, 4)
    said = "2 of 4 seeds diverged (0, 2)"
    assert said in (directory.path / "report.md").read_text()
    assert said in repr(RunResult.read(directory.path)).replace("\n", " ")
    assert RunResult.read(directory.path).seeds == [0, 1, 2, 4]
    assert said in compare(directory.path / "base", directory.path).found[0].verdict
    write_html(read_runs(directory.path), tmp_path / "page.html")
    assert said in (tmp_path / "page.html").read_text()


def test_the_others_end_where_they_end_alone(tmp_path: Path) -> None:
    directory = made(tmp_path / "a", 0, 1, 2, 4)
    alone, _ = run(spec(1, 4), out=tmp_path / "b", device="cpu")
    for seed in (1, 4):
        assert np.array_equal(directory.accuracy("random", seed), alone.accuracy("random", seed))


def test_a_row_without_survivors_says_why_every_time(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(Diverged, match=r"not finite at step"):
            run(spec(0, 2), out=tmp_path, device="cpu")
    (directory,) = (RunDirectory(path.parent) for path in tmp_path.glob("*/spec.toml"))
    assert not directory.finished("random")
    assert directory.diverged("random").keys() == {0, 2}
    (unfinished,) = read_runs(directory.path).runs[0].unfinished
    assert unfinished.diverged == directory.diverged("random")
    write_html(read_runs(directory.path), tmp_path / "page.html")
    assert "2 of 2 seeds diverged: loss or weights are not finite" in (tmp_path / "page.html").read_text()


def test_what_diverged_before_is_tried_again_only_if_asked_for(tmp_path: Path) -> None:
    directory, tried = RunDirectory(tmp_path), list[list[int]]()
    directory.lose("row", {3: "step 1"})
    train_survivors(directory, "row", [3, 4], tried.append)
    train_survivors(directory, "row", [3, 4], tried.append, fresh=True)
    assert tried == [[4], [3, 4]]
    assert directory.diverged("row") == {}
    assert Safety().start == "auto"


def test_an_error_that_names_no_seed_is_passed_on(tmp_path: Path) -> None:
    def fail(_: list[int]) -> None:
        raise Diverged("somewhere")

    with pytest.raises(Diverged, match="somewhere"):
        train_survivors(RunDirectory(tmp_path), "row", [0, 1], fail)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "row").mkdir()
    (tmp_path / "row" / DIVERGED).write_text("[")
    with pytest.raises(GradcastError, match=r"diverged\.json cannot be read .*; delete .*row and run again"):
        RunDirectory(tmp_path).diverged("row")
