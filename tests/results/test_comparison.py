import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import torch

from gradcast.errors import GradcastError
from gradcast.results.comparison import Comparisons, compare
from gradcast.results.run_result import RunResult
from gradcast.runs.directory import RunDirectory
from gradcast.runs.manifest import describe, seed_files
from gradcast.runs.recorder import Recorder
from tests.trained_runs import class_incremental, finished, small

BASE = {"base": [80.0, 81.0, 79.0]}
THREE = "random control, no claim: mean +3.0 points, t interval +2.8 to +3.2"


def made(
    out: Path, acc: Mapping[str, Sequence[float]], *settings: str, content: str = "", data: str = "the same"
) -> Path:
    """A run whose rows have these values of ACC, seed by seed, and whose other rows are not finished."""
    spec = small(*settings)
    directory = RunDirectory.named(out, spec, content).begin(spec)
    for row, values in acc.items():
        directory.start(row, spec.seeds)
        directory.stream(row, {"source": data})
        recorder = Recorder(directory, row, spec.seeds)
        recorder.stepped(0, 0, {"loss": torch.ones(len(values))})
        for task in range(4):
            recorder.evaluated(task, torch.tensor(values, dtype=torch.float64).div(100)[:, None].expand(-1, 3))
        directory.finish(row, {}, describe(directory.path / row, seed_files(spec.seeds)))
    return directory.path


def verdicts(found: Comparisons) -> list[str]:
    return [f"{own.variant.name} {own.paired.verdict}" for own in found.found]


def test_a_quick_look_stays_one_on_either_side(tmp_path: Path) -> None:
    result, look = made(tmp_path, BASE), made(tmp_path, BASE, 'title="QUICK LOOK, not a result"')
    pairs = [(result, result), (result, look), (look / "base", result / "base"), (look, look)]
    assert [compare(*pair).quick for pair in pairs] == [False, True, True, True]
    assert compare(look, look).as_dict()["quick"] is True


def test_two_rows_of_a_run_are_what_the_run_says() -> None:
    directory, results = finished()
    found = compare(directory.path / "base", directory.path / "random")
    (own,) = found.found
    expected = results[2].paired
    assert expected is not None
    assert own.paired == expected
    assert own.title == f"{results[2].label} against {results[0].label}"
    assert own.seeds == [0, 1, 2]
    assert found.left_out == []


def test_the_first_row_is_the_base(tmp_path: Path) -> None:
    run = made(tmp_path, BASE | {"random": [83.0, 83.9, 82.1]})
    forth, back = compare(run / "base", run / "random"), compare(run / "random", run / "base")
    assert forth.found[0].paired.difference.mean == pytest.approx(3.0)
    assert back.found[0].paired.difference.mean == pytest.approx(-3.0)
    assert verdicts(forth) == [THREE]
    assert verdicts(back) == ["base open: 3 seeds, a verdict needs 10 (mean -3.0 points, t interval -3.2 to -2.8)"]


def test_rows_of_the_same_name_are_paired_across_runs(tmp_path: Path) -> None:
    a = made(tmp_path, BASE | {"predicted": [70.0, 70.0, 70.0]})
    b = made(tmp_path, {"base": [81.0, 82.0, 80.0], "random": [1.0, 2.0, 3.0]}, "learner.lr=0.2")
    found = compare(a, b)
    (own,) = found.found
    assert (own.base.place, own.variant.place) == (a / "base", b / "base")
    assert own.title == f"{b / 'base'} against {a / 'base'}"  # the labels are the same
    assert own.paired.difference.mean == pytest.approx(1.0)
    assert found.left_out == [
        f"{a}: not finished and left out: random",
        f"{b}: not finished and left out: predicted",
    ]


def test_rows_that_one_run_lacks_are_named(tmp_path: Path) -> None:
    a = made(tmp_path, BASE | {"predicted": [80.0, 80.0, 80.0], "random": [80.0, 80.0, 80.0]})
    b = made(tmp_path, {"base": [80.0, 81.0, 79.0], "other": [1.0, 1.0, 1.0]}, 'row=[{name="base"}, {name="other"}]')
    found = compare(a, b)
    assert verdicts(found) == ["base identical ACC on every seed"]
    assert found.left_out == [
        f"{a}: left out, since {b} lacks them: predicted, random",
        f"{b}: left out, since {a} lacks them: other",
    ]
    with pytest.raises(GradcastError, match="have no finished rows of the same name; name a row of each"):
        compare(a, made(tmp_path, {"other": [1.0, 1.0, 1.0]}, 'row=[{name="other"}]'))


def test_a_row_is_the_base_of_all_others_wherever_it_stands(tmp_path: Path) -> None:
    run = made(tmp_path, BASE | {"predicted": [80.5, 80.4, 80.1], "random": [83.0, 84.1, 82.0]})
    one, other = compare(run / "base", run), compare(run, run / "base")
    assert [own.variant.name for own in one.found] == ["predicted", "random"]
    assert one.as_dict() == other.as_dict()
    elsewhere = made(tmp_path, BASE, "learner.lr=0.2")
    assert [own.variant.name for own in compare(elsewhere / "base", run).found] == ["base", "predicted", "random"]
    with pytest.raises(GradcastError, match="has no other finished row than"):
        compare(elsewhere / "base", elsewhere)


ROWS = 'row=[{name="base"}, {name="one", learner.lr=0.2}, {name="two", learner.lr=0.3}, {name="three"}]'
SEEDS = "seeds=[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"
TEN = [80.0, 81.0, 79.0, 82.0, 80.5, 79.5, 81.5, 80.2, 79.8, 81.1]


def test_one_row_has_the_family_of_its_run(tmp_path: Path) -> None:
    """Whether one pair is asked for or all of them; rows that are not finished belong to it too."""
    gains = [0.9, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8]
    better, worse = ([80 + sign * gain for gain in gains] for sign in (1, -1))
    acc = {"base": [80.0] * 10, "one": better, "two": worse}
    run = made(tmp_path, acc, ROWS, SEEDS)
    every = {own.variant.name: own.paired for own in compare(run / "base", run).found}
    (alone,) = compare(run / "base", run / "one").found
    assert alone.paired == every["one"]
    assert alone.paired.family == 3
    assert alone.paired.wilcoxon_holm == pytest.approx(3 * 2 / 2**10)
    assert RunResult.read(run).comparisons[0].paired == alone.paired
    other = made(tmp_path, {"base": TEN}, "learner.lr=0.7", SEEDS)  # a base from elsewhere: the same family again
    (across,) = compare(other / "base", run / "one").found
    assert across.paired.family == len(compare(other / "base", run).found) == 3


def test_rows_of_two_runs_are_a_family_of_their_own(tmp_path: Path) -> None:
    rows = {"base": TEN, "one": [value + 1 for value in TEN], "two": TEN}
    a, b = made(tmp_path, rows, ROWS, SEEDS), made(tmp_path, rows | {"one": TEN}, ROWS, SEEDS, "learner.memory=8")
    assert [own.paired.family for own in compare(a, b).found] == [1, 1, 1]  # identical rows claim nothing


def test_a_run_with_itself_is_identical() -> None:
    directory, results = finished()
    found = compare(directory.path, directory.path)
    assert verdicts(found) == [f"{result.name} identical ACC on every seed" for result in results]
    assert verdicts(compare(directory.path / "base", directory.path / "base")) == ["base identical ACC on every seed"]


def test_seeds_are_paired_by_number_and_the_others_named(tmp_path: Path) -> None:
    a = made(tmp_path, {"base": [70.0, 80.0, 81.0, 79.0]}, "seeds=[9, 0, 1, 2]")
    b = made(tmp_path, {"base": [82.5, 81.0, 30.0]}, "seeds=[1, 0, 5]")
    found = compare(a / "base", b / "base")
    assert found.found[0].seeds == [0, 1]
    assert found.found[0].paired.difference.mean == pytest.approx((1.0 + 1.5) / 2)
    assert found.left_out == [
        f"{a / 'base'}: seeds left out, since {b / 'base'} lacks them: 9, 2",
        f"{b / 'base'}: seeds left out, since {a / 'base'} lacks them: 5",
    ]
    one = made(tmp_path, {"base": [82.0]}, "seeds=[1]")
    assert "open: 1 seed, " in verdicts(compare(a / "base", one / "base"))[0]
    none = made(tmp_path, {"base": [82.0]}, "seeds=[4]")
    with pytest.raises(GradcastError, match=r"no seed in common \(4; 9, 0, 1, 2\); run both on the same seeds"):
        compare(a / "base", none / "base")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("stream.samples=50", r"different streams and cannot be paired: stream\.samples is 50 and 40$"),
        ("evaluation.drop_last=true", r"evaluation\.drop_last is True and False$"),
    ],
)
def test_different_streams_are_not_paired(tmp_path: Path, setting: str, message: str) -> None:
    a, b = made(tmp_path, BASE), made(tmp_path, BASE, setting)
    with pytest.raises(GradcastError, match=message):
        compare(a, b)


def test_an_average_changes_nothing_about_what_is_measured(tmp_path: Path) -> None:
    a, b = made(tmp_path, BASE), made(tmp_path, BASE, "evaluation.average=5")
    assert verdicts(compare(a, b)) == ["base identical ACC on every seed"]


def test_a_row_of_another_stream_is_left_out_where_others_can_be_compared(tmp_path: Path) -> None:
    rows = BASE | {"predicted": [81.0, 82.0, 80.5], "random": [79.0, 81.0, 79.0]}
    run = made(tmp_path, rows, "row.random.stream.ratio=0.5")
    found = compare(run / "base", run)
    assert [own.variant.name for own in found.found] == ["predicted"]
    assert len(found.left_out) == 1
    assert "stream.ratio is 0.5 and 1.0" in found.left_out[0]


def test_the_same_stream_of_other_data_is_not_paired(tmp_path: Path) -> None:
    a, b = made(tmp_path, BASE), made(tmp_path, BASE, content="other", data="other")
    with pytest.raises(GradcastError, match="were trained on different data"):
        compare(a, b)
    (b / "base" / "stream.json").write_text("{}")
    with pytest.raises(GradcastError, match=r"stream\.json was changed"):
        compare(a, b)


@pytest.mark.parametrize("file", ["seed-1/accuracy.csv", "stream.json"])
def test_a_damaged_row_is_named_and_the_others_are_compared(tmp_path: Path, file: str) -> None:
    run = made(tmp_path, BASE | {"predicted": [80.0, 81.1, 79.0], "random": [83.0, 83.9, 82.1]})
    (run / "predicted" / file).write_text("{")
    found = compare(run / "base", run)
    assert verdicts(found) == [THREE]
    (sentence,) = found.damage
    assert f"predicted/{file} was changed" in sentence
    assert found.as_dict()["damage"] == [sentence]
    assert compare(run / "base", run / "random").damage == []  # nobody asked for it
    with pytest.raises(GradcastError, match=r"predicted/.* was changed"):
        compare(run / "base", run / "predicted")
    shutil.rmtree(run / "random")
    with pytest.raises(GradcastError, match=r"predicted/.* was changed"):
        compare(run / "base", run)


def test_paths_may_be_relative_or_linked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = made(tmp_path, BASE | {"random": [83.0, 83.9, 82.1]})
    (tmp_path / "link").symlink_to(run)
    monkeypatch.chdir(run / "base")
    assert verdicts(compare(Path("."), Path("../random"))) == [THREE]
    assert verdicts(compare(Path("."), tmp_path / "link")) == [THREE]


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("nowhere", "nowhere does not exist; name a run directory"),
        ("empty", "empty is empty; name a run directory"),
        ("run/base/seed-0", r"seed-0 is no run directory, it has no spec\.toml"),
        (".", r"is no run directory, it has no spec\.toml"),
        ("run/bse", "there is no row 'bse' in run; did you mean 'base'?"),
        ("run/predicted", r"run/predicted is not finished; complete it: gradcast run .*run/spec\.toml --out "),
        ("begun", r"begun has no finished row; complete it: gradcast run .*begun/spec\.toml --out "),
        ("broken", r"broken/spec\.toml cannot be read \(.*\); delete .*broken and run again"),
        ("newer/base", r"newer/spec\.toml cannot be read \(unknown key 'future'.*\); delete .*newer and run again"),
        ("binary", r"binary/spec\.toml cannot be read"),
        ("damaged", r"accuracy\.csv cannot be read"),
        ("damaged/base", r"accuracy\.csv cannot be read"),
    ],
)
def test_what_cannot_be_compared_is_told_in_a_sentence(tmp_path: Path, place: str, message: str) -> None:
    run = made(tmp_path, BASE).rename(tmp_path / "run")
    (tmp_path / "empty").mkdir()
    for name in ("begun", "broken", "newer", "binary", "damaged"):
        shutil.copytree(run, tmp_path / name)
    for name in ("begun", "damaged"):
        (tmp_path / name / "base" / "manifest.json").unlink()
    (tmp_path / "begun" / "base" / "env.json").unlink()
    (tmp_path / "broken" / "spec.toml").write_text("name = [")
    (tmp_path / "newer" / "spec.toml").write_text("future = 1\n")
    (tmp_path / "binary" / "spec.toml").write_bytes(b"\xff\xfe")
    (tmp_path / "damaged" / "base" / "seed-1" / "accuracy.csv").write_text("tasks_done,task_0\n0,abc\n")
    for pair in ((run, tmp_path / place), (tmp_path / place, run)):
        with pytest.raises(GradcastError, match=message) as caught:
            compare(*pair)
        assert "\n" not in str(caught.value)


def test_comparisons_without_the_task_are_those_of_the_run(tmp_path: Path) -> None:
    directory, rows = class_incremental()
    found = compare(directory.path / "er", directory.path).found
    for own, row in zip(found, rows[1:], strict=True):
        assert row.unknown is not None
        assert own.unknown == row.unknown.paired
        assert own.as_dict()["unknown_task"]["verdict"] == own.unknown.verdict
    assert [own.unknown for own in RunResult.read(directory.path).comparisons] == [own.unknown for own in found]
    other = Path(shutil.copytree(directory.path, tmp_path / "other"))
    (pair, *_) = compare(directory.path, other).found
    assert pair.unknown is not None
    assert pair.unknown.verdict == "identical ACC on every seed"
    (across, *_) = compare(other / "finetune", directory.path / "masked").found
    assert across.unknown is not None
    assert across.unknown.family == across.paired.family + 2  # all rows of the directory, and both measures
