import tomllib
from dataclasses import replace

import pytest

from gradcast.results.advice import AVERAGED, BEST, advice
from gradcast.results.result import RowResult
from gradcast.results.statistics import compare
from gradcast.specs.text import load, parse, presets
from tests.trained_runs import finished

DEEP = "icifar100-resnet-gem"


def rows(*accuracies: list[float], names: tuple[str, ...] = ("base", "predicted")) -> list[RowResult]:
    """Results that differ in nothing but name and accuracy."""
    one, seeds = finished()[1][0], list(range(len(accuracies[0])))
    paired = [None, *(compare(own, accuracies[0]) for own in accuracies[1:])]
    return [replace(one, name=name, seeds=seeds, paired=own) for name, own in zip(names, paired, strict=True)]


BASE, NOISE, GAIN = [70.0, 71.0, 72.0], [71.0, 70.0, 72.5], [73.0, 74.1, 75.0]


def test_a_signal_that_did_not_help_leads_to_the_one_that_does() -> None:
    told = advice(load(DEEP), rows(BASE, NOISE))
    assert told is not None
    assert f"gradcast run {DEEP}-best" in told


def test_a_quick_look_advises_nothing() -> None:
    assert advice(load(DEEP, ['title="QUICK LOOK, not a result"']), rows(BASE, NOISE)) is None


def test_without_a_preset_the_settings_are_spelled_out_and_valid() -> None:
    told = advice(load("icifar100-resnet-dcl"), rows(BASE, NOISE))
    assert told is not None
    row = told.partition("a row with ")[2].replace(", ", "\n")
    tables = "\n".join(["[policy]", "start = 50", "[[row]]", "[[row]]", row])
    setting = parse({"name": "own"} | tomllib.loads(tables)).rows[1].setting
    assert ([own.name for own in setting.signals], setting.policy.batch, setting.policy.start) == (
        ["contrastive"],
        64,
        50,
    )


def test_an_mlp_is_not_promised_anything() -> None:
    told = advice(load("mnist-r"), rows(BASE, NOISE))
    assert told is not None
    assert "contrastive" not in told


@pytest.mark.parametrize(
    ("preset", "names", "accuracies"),
    [
        (DEEP, ("base", "predicted"), (BASE, GAIN)),
        (DEEP, ("base", "predicted"), ([70.0], [71.0])),  # one seed says nothing
        (DEEP, ("base",), (BASE,)),
        (f"{DEEP}-best", ("base", "best"), (BASE, NOISE)),
    ],
)
def test_otherwise_there_is_nothing_to_say(
    preset: str, names: tuple[str, ...], accuracies: tuple[list[float], ...]
) -> None:
    assert advice(load(preset), rows(*accuracies, names=names)) is None


def test_what_is_advised_is_what_the_presets_do() -> None:
    deep = [name for name in presets() if name.endswith("-best") and name.startswith("icifar100")]
    assert deep
    for name in deep:
        setting = load(name).rows[-1].setting.model_dump()
        for key, value in BEST.items():
            table, own = key.split(".")
            assert setting[table][own] == tomllib.loads(f"value = {value}")["value"]
    for name in ("mnist-r-best", "mnist-p-best"):
        assert f"evaluation.average = {load(name).rows[-1].setting.evaluation.average}" == AVERAGED


def test_networks_without_features_are_not_told_to_use_them() -> None:
    assert advice(load("acl-digits"), rows(BASE, NOISE)) is None


def test_few_labels_are_another_matter() -> None:
    assert advice(load("digits-100"), rows(BASE, NOISE, names=("supervised", "mg-random"))) is None
