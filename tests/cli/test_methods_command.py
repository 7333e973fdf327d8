import json
from pathlib import Path

from gradcast.cli.methods_command import everything
from gradcast.learners.registry import LEARNERS
from gradcast.specs.compatibility import RULES
from tests.cli.process import called


def test_everything_is_listed_within_eighty_columns(tmp_path: Path) -> None:
    done = called("methods", cwd=tmp_path)
    assert done.returncode == 0
    assert max(map(len, done.stdout.splitlines())) <= 80
    words = done.stdout.split()
    assert all(name in words for known in everything().values() for name in known)
    assert done.stdout.count("\n  - ") == len(RULES)


def test_one_method_with_the_meaning_of_its_settings(tmp_path: Path) -> None:
    done = called("methods", "gem", cwd=tmp_path)
    assert "memory = 256  samples kept a task" in done.stdout
    assert "dcl" not in done.stdout


def test_an_unknown_name_is_told_the_nearest(tmp_path: Path) -> None:
    done = called("methods", "gemm", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.strip() == "error: there is no method 'gemm'; did you mean 'gem'?"


def test_json_has_defaults_and_cost(tmp_path: Path) -> None:
    found = json.loads(called("methods", "--json", cwd=tmp_path).stdout)
    assert set(found["learner"]) == set(LEARNERS)
    assert found["learner"]["er"]["cost"] == LEARNERS["er"].cost
    settings = {line["name"]: line for line in found["signal"]["mean-teacher"]["settings"]}
    assert settings["ema"]["default"] == "0.999"
