import shlex
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from gradcast.results.advice import AVERAGED, BEST, BEST_AVERAGE, advice
from gradcast.results.result import RowResult
from gradcast.specs.spec import Spec
from gradcast.specs.text import dump, load, presets
from tests.compared import compare
from tests.trained_runs import finished

DEEP = "icifar100-resnet-gem"
TEN = "seeds=[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"
BASE = [70.0, 71.0, 72.0, 70.5, 71.5, 72.5, 70.2, 71.2, 72.2, 70.8]
NONE = [70.1, 70.9, 72.2, 70.3, 71.8, 72.2, 70.3, 71.0, 72.4, 70.8]
WIDE = [value + 20 * (own - value) for value, own in zip(BASE, NONE, strict=True)]
GAIN = [value + 1 + 0.1 * place for place, value in enumerate(BASE)]
PLACE = Path("runs/own 1")


def rows(*accuracies: list[float], names: tuple[str, ...] = ("base", "predicted")) -> list[RowResult]:
    """Results that differ in nothing but name and accuracy."""
    one, seeds = finished()[1][0], list(range(len(accuracies[0])))
    paired = [None, *(compare(own, accuracies[0]) for own in accuracies[1:])]
    return [replace(one, name=name, seeds=seeds, paired=own) for name, own in zip(names, paired, strict=True)]


def told(spec: Spec, *accuracies: list[float], place: Path = PLACE) -> str:
    found = advice(spec, rows(*accuracies), place)
    assert found is not None
    return found


def pasted(sentence: str) -> list[str]:
    """What a shell makes of the command that the sentence ends in."""
    return shlex.split(sentence[sentence.index("gradcast run") :])


def parsed(words: list[str]) -> Spec:
    """What the command would run."""
    _, _, what, *options = words
    pairs = list(zip(options[::2], options[1::2], strict=True))
    settings = [value for key, value in pairs if key == "--set"]
    seeds = [f"seeds={list(range(int(value)))}" for key, value in pairs if key == "--seeds"]
    return load(what, [*settings, *seeds])


def test_few_seeds_ask_for_more_and_do_not_say_that_nothing_helped() -> None:
    sentence = told(load(DEEP, ["seeds=[0, 1]"]), BASE[:2], NONE[:2])
    assert "helped" not in sentence
    assert sentence == f"2 of 10 seeds: for a verdict run gradcast run {DEEP} --seeds 10"
    assert parsed(pasted(sentence)).seeds == list(range(10))


def test_a_signal_that_did_not_help_leads_to_the_one_that_does() -> None:
    sentence = told(load(DEEP, [TEN]), BASE, NONE)
    assert "No signal helped here" in sentence
    assert pasted(sentence) == ["gradcast", "run", f"{DEEP}-best", "--seeds", "10"]


def test_an_open_signal_has_not_failed() -> None:
    assert advice(load(DEEP, [TEN]), rows(BASE, WIDE), PLACE) is None


def test_a_quick_look_advises_nothing() -> None:
    spec = load(DEEP, [TEN, 'title="QUICK LOOK, not a result"'])
    assert advice(spec, rows(BASE, NONE), PLACE) is None


def test_without_a_preset_the_command_changes_the_runs_own_specification(tmp_path: Path) -> None:
    spec = load("icifar100-resnet-dcl", [TEN, "policy.start=50"])
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b" / "spec.toml").write_text(dump(spec))
    found = parsed(pasted(told(spec, BASE, NONE, place=tmp_path / "a b")))
    base, row = found.rows[0].setting, next(own.setting for own in found.rows if own.name == "predicted")
    assert base.signals == []
    assert base.evaluation.average == row.evaluation.average == 200
    assert [own.name for own in row.signals] == ["contrastive"]
    assert (row.policy.batch, row.policy.start, found.seeds) == (64, 50, list(range(10)))


def test_an_mlp_is_told_of_averaged_weights_alone() -> None:
    sentence = told(load("mnist-r", [TEN]), BASE, NONE)
    assert "contrastive" not in sentence
    assert parsed(pasted(sentence)).rows[0].setting.evaluation.average == 33


@pytest.mark.parametrize(
    ("preset", "names", "accuracies"),
    [
        (DEEP, ("base", "predicted"), (BASE, GAIN)),
        (DEEP, ("base",), (BASE,)),
        (f"{DEEP}-best", ("base", "signal"), (BASE, NONE)),
    ],
)
def test_otherwise_there_is_nothing_to_say(
    preset: str, names: tuple[str, ...], accuracies: tuple[list[float], ...]
) -> None:
    assert advice(load(preset, [TEN]), rows(*accuracies, names=names), PLACE) is None


def test_what_is_advised_is_what_the_presets_do() -> None:
    deep = [name for name in presets() if name.endswith("-best") and name.startswith("icifar100")]
    assert deep
    for name in deep:
        (setting,) = (row.setting for row in load(name).rows if row.name == "both")
        assert f"evaluation.average={setting.evaluation.average}" == BEST_AVERAGE
        for key, value in BEST.items():
            table, own = key.split(".")
            expected = setting.model_dump()[table][own]
            assert value == expected if isinstance(expected, str) else tomllib.loads(f"v = {value}")["v"] == expected
    for name in ("mnist-r-best", "mnist-p-best"):
        assert f"evaluation.average={load(name).rows[-1].setting.evaluation.average}" == AVERAGED


def test_networks_without_features_are_not_told_to_use_them() -> None:
    assert advice(load("acl-digits", [TEN]), rows(BASE, NONE), PLACE) is None


def test_few_labels_are_another_matter() -> None:
    assert advice(load("digits-100"), rows(BASE, NONE, names=("supervised", "mg-random")), PLACE) is None


def test_images_of_the_caller_are_in_no_command() -> None:
    assert advice(load("digits", ["pool.name=python"]), rows(BASE[:5], NONE[:5]), PLACE) is None
