import os
from pathlib import Path

import pytest

from gradcast.bench.faults import difference, forked, snapshot, strike
from gradcast.errors import GradcastError
from gradcast.runs.safe_files import sweep, write_text


def careful(out: Path) -> None:
    """Two files, whatever was there before; what a killed process left is swept."""
    out.mkdir(exist_ok=True)
    sweep(out)
    for name in ("a", "b"):
        write_text(out / name, name)


def careless(out: Path) -> None:
    """The same without sweeping, and without a whole file."""
    out.mkdir(exist_ok=True)
    if not (out / "a").exists():
        (out / "a").write_text("a")
        (out / "b").write_text("b")


def stuck(out: Path) -> None:
    """Never begins twice."""
    out.mkdir()
    write_text(out / "a", "a")


def test_operations_are_counted_in_a_process_of_their_own(tmp_path: Path) -> None:
    code, count = forked(careful, tmp_path / "out", tmp_path / "log")
    assert (code, count) == (0, 6)  # of each file a leftover is removed; it is opened and renamed
    assert snapshot(tmp_path / "out") == {"a": b"a", "b": b"b"}
    code, _ = forked(careful, tmp_path / "out", tmp_path / "log", at=3)
    assert code == -9
    code, _ = forked(careful, tmp_path / "out", tmp_path / "log", at=1, fault="full")
    assert code == 2
    assert "No space left on device" in (tmp_path / "log").read_text()


def test_a_careful_run_survives_every_fault(tmp_path: Path) -> None:
    found = list(strike({"careful": careful}, tmp_path))
    assert {(trial.fault, trial.place) for trial in found} == {(f, p) for f in ("kill", "full") for p in range(1, 7)}
    assert [trial.problem for trial in found] == [""] * 12


def test_a_careless_one_does_not(tmp_path: Path) -> None:
    found = list(strike({"careless": careless}, tmp_path, faults=["kill"]))
    assert found[1].problem == "missing: b"
    (first, *_) = strike({"stuck": stuck}, tmp_path, faults=["kill"])
    assert first.problem.startswith("stuck: the same command ends with code 2: error: [Errno 17] File exists")


def test_what_fails_without_a_fault_is_no_trial(tmp_path: Path) -> None:
    (tmp_path / "stuck").mkdir()
    with pytest.raises(GradcastError, match=r"the run 'stuck' fails without a fault: error: .*File exists"):
        list(strike({"stuck": stuck}, tmp_path))


def test_differences_are_named_and_times_are_none(tmp_path: Path) -> None:
    (tmp_path / "env.json").write_text('{"time": 1}')
    (tmp_path / "result.json").write_text('[{"cost": 1, "acc": 2}]')
    os.symlink("/x", tmp_path / "link")
    before = snapshot(tmp_path)
    (tmp_path / "env.json").write_text('{"time": 2}')
    (tmp_path / "result.json").write_text('[{"cost": 3, "acc": 2}]')
    assert difference(before, snapshot(tmp_path)) == ""
    (tmp_path / "result.json").write_text('[{"cost": 3, "acc": 3}]')
    (tmp_path / "link").unlink()
    (tmp_path / "x.tmp").touch()
    assert difference(before, snapshot(tmp_path)) == "left behind: x.tmp; missing: link; other bytes: result.json"
