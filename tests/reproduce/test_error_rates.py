"""A small table of errors, trained on the digits."""

from dataclasses import replace

import pytest

from gradcast.reproduce.cells import Cell
from gradcast.reproduce.error_rates import with_errors
from gradcast.reproduce.experiment import Experiment, load, read
from gradcast.reproduce.reproduce import Request, outcome, train
from gradcast.reproduce.show_table import table
from gradcast.results.result import read as read_run
from gradcast.runs.directory import RunDirectory
from gradcast.specs.text import load as load_spec
from gradcast.training.schedule_tables import StepsSpec

SHORT = [
    "schedule.steps=12",
    "schedule.warm_up=2",
    "schedule.milestones=[9]",
    "schedule.ramp=2",
    "schedule.test_every=4",
]


def experiment() -> Experiment:
    rows = {row.name: row.setting for row in load_spec("digits-100", SHORT).rows}
    labels, mg = rows["supervised"].model_dump(), rows["mg"].model_dump()
    return read(
        {
            **{"id": "T8", "title": "Errors", "about": "Small."},
            "row": [
                {"name": "labels", "label": "labels", "published": {"error": 12.0}, **labels},
                {"name": "mg", "label": "MG", "against": "labels", "published": {"error": 9.5}, **mg},
                {
                    "name": "quoted",
                    "label": "another",
                    "not_reproduced": "nothing of ours",
                    "published": {"error": 8.0},
                },
            ],
        }
    )


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> Request:
    made = Request(experiment(), [0, 1, 2], "float32", tmp_path_factory.mktemp("table"))
    assert train(made, data=None, device="cpu", display=None) == {}
    return made


def test_our_best_error_stands_beside_the_published_one(wanted: Request) -> None:
    labels, mg, quoted = outcome(wanted, {})
    for line in (labels, mg):
        (directory,) = {place.path: place for place in _places(wanted, line.item.name)}.values()
        (result,) = read_run(directory)
        assert line.ours["error"] == result.diagnostics["best_error"]
        assert "bwt" not in line.ours
        assert line.ours["acc"].mean == pytest.approx(100 - result.diagnostics["last_error"].mean)
    assert mg.published_gain == 2.5  # points that the error is lower by
    assert mg.paired is not None
    assert mg.noise in ("pairs", "seeds", "beyond")
    assert (quoted.ours, quoted.state) == ({}, "not reproduced: nothing of ours")
    head = table(wanted, [labels, mg, quoted]).head
    assert [title for title in head if "error" in title] == ["best error (%) published", "best error (%) ours"]


def test_noise_is_that_of_best_errors(wanted: Request) -> None:
    lines = outcome(wanted, {})
    huge = [replace(line, published={"error": 1000.0 * place}) for place, line in enumerate(lines)]
    found = with_errors(huge)
    assert (found[1].published_gain, found[1].noise) == (-1000.0, "beyond")


def test_the_published_table_has_three_datasets() -> None:
    own = load("E6")
    assert all(item.setting is not None for item in own.items)
    course = StepsSpec(name="steps").within(32_000).model_copy(update={"test_every": 800})
    for key, labels, scale in (("svhn", 1000, 2.0), ("cifar10", 4000, 1.0), ("cifar100", 10_000, 1.0)):
        preset = {row.name: row.setting for row in load_spec(f"{key}-{labels}").rows}
        short = {name: setting.model_copy(update={"schedule": course}) for name, setting in preset.items()}
        names = ["supervised", "mg", "mg-predicted", "mg-random", "fixmatch", "co-training", "ada-net", "dual-student"]
        for name, of_preset in [*((name, name) for name in names), ("mg-quoted", "mg"), ("tnar-vae", "tnar")]:
            assert own.item(f"{key}-{name}").setting == short[of_preset]
        assert getattr(preset["mg-predicted"].signals[1], "loss_scale", None) == scale
    published = [(own.item(f"{key}-mg").published or {})["error"] for key in ("svhn", "cifar10", "cifar100")]
    assert published == [3.53, 7.82, 30.74]


def _places(wanted: Request, name: str) -> list[RunDirectory]:

    setting = wanted.experiment.item(name).setting
    assert setting is not None
    return Cell(setting).directories(wanted.cells)
