import json
from pathlib import Path

from gradcast.cli.methods_command import everything
from gradcast.data.registry import SOURCES
from gradcast.learners.registry import LEARNERS
from gradcast.signals.registry import SIGNALS
from gradcast.specs.compatibility import RULES
from gradcast.specs.spec import CHOICES
from tests.cli.process import called, cli


def test_every_choice_of_every_table_is_there_with_a_line_about_it() -> None:
    found = everything()
    assert {kind: set(found[kind]) for kind in CHOICES} == {kind: set(known) for kind, known in CHOICES.items()}
    assert set(found["stream.source"]) == set(SOURCES)
    for kind, known in found.items():
        for name, facts in known.items():
            assert facts["about"], (kind, name)
    assert all(found["learner"][name].get("cost") for name in LEARNERS.own)
    assert all(found["signal"][name].get("cost") for name in SIGNALS.own)
    assert not [name for name in LEARNERS.own if "from" in found["learner"][name]]


def test_the_list_ends_with_what_cannot_be_combined(tmp_path: Path) -> None:
    shown = called("methods", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    text = " ".join(shown.stdout.split())
    assert "mean-teacher" in text
    assert "What cannot be combined" in text
    for rule in RULES:
        assert rule.about.replace("`", "") in text


def test_one_method_is_explained_key_by_key(tmp_path: Path) -> None:
    shown = called("methods", "meta-gradient", cwd=tmp_path).stdout
    assert "mix_up = 0.0" in shown
    assert "mean-teacher" not in shown
    assert "What cannot be combined" not in shown
    found = json.loads(called("methods", "gem", "--json", cwd=tmp_path).stdout)
    assert [kind for kind, known in found.items() if known] == ["learner"]
    assert {line["name"] for line in found["learner"]["gem"]["settings"]} >= {"lr", "memory", "margin"}
    wrong = cli("methods", "meen-teacher", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "there is no method 'meen-teacher'; did you mean 'mean-teacher'?" in wrong.stderr
