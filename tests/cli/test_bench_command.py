import json
from pathlib import Path

import pytest

from gradcast.bench import fault_kinds, measure
from gradcast.bench.faults import Trial
from tests.cli.process import called


@pytest.mark.parametrize("replicas", ["", "two", "1,0"])
def test_bench_refuses_what_is_no_list_of_numbers(replicas: str, tmp_path: Path) -> None:
    found = called("bench", "--replicas", replicas, cwd=tmp_path)
    assert found.returncode == 2
    assert "as in --replicas 1,4,16" in found.stderr


def test_bench_refuses_parts_that_do_not_exist(tmp_path: Path) -> None:
    found = called("bench", "--only", "steps,stpes", cwd=tmp_path)
    assert found.returncode == 2
    assert "there are steps, growth, streams, checkpoints, epochs, few-labels, head-start, methods" in " ".join(
        found.stderr.split()
    )


def test_what_was_measured_on_other_machines_is_shown_without_timing_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "bench", lambda *given: pytest.fail("something was timed"))
    found = called("bench", "--show", cwd=tmp_path)
    assert found.returncode == 0
    assert found.stdout.startswith("NVIDIA H200, ")
    assert "MNIST-R, GEM + predicted gradients" in found.stdout
    assert "\ncpu, " in found.stdout
    told = json.loads(called("bench", "--show", "--json", cwd=tmp_path).stdout)
    assert {name: own["machine"]["device"] for name, own in told.items()} == {"h200": "NVIDIA H200", "cpu": "cpu"}


def test_faults_that_leave_something_else_are_named_and_the_exit_code_is_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trials = [Trial("acl", "kill", 3, ""), Trial("acl", "full", 4, "left behind: a.tmp")]
    monkeypatch.setattr(fault_kinds, "all_faults", lambda say: trials)
    found = called("bench", "--faults", cwd=tmp_path)
    assert found.returncode == 2
    assert found.stdout.splitlines() == [
        "acl, full at operation 4: left behind: a.tmp",
        "2 faults, 1 of which left something else than an undisturbed run",
    ]
    monkeypatch.setattr(fault_kinds, "all_faults", lambda say: trials[:1])
    found = called("bench", "--faults", "--json", cwd=tmp_path)
    assert found.returncode == 0
    assert json.loads(found.stdout) == {"trials": 1, "wrong": []}
