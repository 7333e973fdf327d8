import json
from pathlib import Path

from gradcast.cli.methods_command import everything
from gradcast.learners.registry import LEARNERS
from gradcast.signals.registry import SIGNALS
from gradcast.specs.compatibility import RULES
from gradcast.specs.spec import CHOICES
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


def test_every_choice_of_every_table_has_a_line_about_it() -> None:
    found = everything()
    assert {kind: set(found[kind]) for kind in CHOICES} == {kind: set(known) for kind, known in CHOICES.items()}
    assert [(kind, name) for kind, known in found.items() for name in known if not known[name]["about"]] == []
    assert all(found["learner"][name].get("cost") for name in LEARNERS.own)
    assert all(found["signal"][name].get("cost") for name in SIGNALS.own)
    assert not [name for name in LEARNERS.own if "from" in found["learner"][name]]
