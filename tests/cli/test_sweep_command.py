import json
import time
from pathlib import Path

from tests.cli.process import ALONE, called, small, started
from tests.trained_runs import SMALL

SWEEP = ("sweep", *small(), "--device", "cpu", "--row", "predicted", "--tune-seeds", "1", "--seeds", "1")


def test_a_sweep_prints_trials_the_comparison_and_the_command_that_repeats_the_best(tmp_path: Path) -> None:
    over = ("--over", "learner.lr=0.1,-1", "--over", "signal.alpha=0.001,0.1")
    found = called(*SWEEP, *over, cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    assert "Trials: 2 finished, 2 refused" in found.stdout
    assert "trial 3 (learner.lr = -1, signal.alpha = 0.001) refused" in " ".join(found.stdout.split())
    assert "GEM + predicted gradients, tuned against GEM" in " ".join(found.stdout.split())
    assert "Repeat the best: gradcast run runs/sweep-digits-" in found.stdout
    assert all(len(line) <= 80 for line in found.stdout.splitlines() if "sweep-digits" not in line)
    again = json.loads(called(*SWEEP, *over, "--json", cwd=tmp_path).stdout)
    assert [own["state"] for own in again["trials"]] == ["finished", "finished", "refused", "refused"]


def test_seeds_that_contradict_and_options_without_use_are_sentences(tmp_path: Path) -> None:
    over = ("--over", "learner.lr=0.1")
    for options, sentence in (
        (("--set", "seeds=[1]"), "--seeds 1 and --set seeds=[1] contradict each other"),
        (("--at-once", "2"), "--at-once divides the seeds of a row for --on ray"),
        (("--tune-seeds", "few"), "neither a number nor a list"),
        (("--tune-seeds", "5,6"), "seed 5 may be reported"),
    ):
        found = called(*SWEEP, *over, *options, cwd=tmp_path)
        assert found.returncode == 2
        assert sentence in " ".join(found.stderr.split())
    assert not (tmp_path / "runs").exists()


def test_a_killed_sweep_goes_on_and_ends_at_the_same_files(tmp_path: Path) -> None:
    settings = [part for own in (*SMALL, "stream.epochs=4") for part in ("--set", own)]
    command = ("sweep", "digits", *ALONE, *settings, *SWEEP[SWEEP.index("--device") :], "--prune", "--prune-after", "1")
    command = (*command, "--over", "learner.lr=0.2,0.00001,0.1")
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    whole.mkdir()
    killed.mkdir()
    assert called(*command, cwd=whole).returncode == 0
    process, limit = started(*command, cwd=killed), time.monotonic() + 60
    while len(rows(killed)) < 2:  # a trial is done, another on its way
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < limit
        time.sleep(0.01)
    process.kill()
    process.communicate()
    before = {path: path.stat().st_mtime_ns for path in killed.glob("runs/store/*/seed-*/trained.json")}
    assert called(*command, cwd=killed).returncode == 0
    assert {path: path.stat().st_mtime_ns for path in before} == before  # trained once
    for name in ("trials.csv", "sweep.json", "sweep.toml", "best.toml", "given.toml", "sweep.html"):
        ours, theirs = (next(folder.glob(f"runs/sweep-*/{name}")).read_bytes() for folder in (whole, killed))
        assert ours == theirs, name


def rows(folder: Path) -> list[str]:
    found = list(folder.glob("runs/sweep-*/trials.csv"))
    return found[0].read_text().splitlines() if found else []
