from pathlib import Path

import numpy as np
import pytest

from gradcast.experiments.cells import Cell
from gradcast.experiments.draw import draw, merged, results
from gradcast.experiments.experiment import Kind
from gradcast.experiments.reproduce import Request, outcome, train
from tests.experiments.scene import TEXT, experiment

ROWS = ["gem", "predicted", "p-0.25", "p-1"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All rows trained: two seeds together, the third alone."""
    out = tmp_path_factory.mktemp("reproduced")
    for seeds in ([0, 1], [2]):
        assert train(Request(experiment(), seeds, "float32", out, ROWS), data=None, device="cpu", display=None) == {}
    return out


def wanted(place: Path, kind: Kind = "table", rows: list[str] = ROWS, *, quick: bool = False) -> Request:
    own = experiment(TEXT.replace('about = "Small."', f'about = "Small."\nkind = "{kind}"'))
    request = Request(own, [0, 1, 2], "float32", place, rows, quick)
    request.folder.mkdir(exist_ok=True)
    return request


def test_seeds_are_put_together_from_wherever_they_lie(place: Path) -> None:
    request = wanted(place)
    line = next(line for line in outcome(request, {}) if line.item.name == "predicted")
    assert line.item.setting is not None
    parts = Cell(line.item.setting).results(place / "cells", steps=True)
    row = merged(line, [0, 1, 2], parts)
    assert len({part[0].path for part in parts.values()}) == 2
    for index, seed in enumerate(row.seeds):
        own = parts[seed][1]
        assert np.array_equal(row.matrices[index], own.matrices[own.seeds.index(seed)])
        assert np.array_equal(row.courses["cosine"][index], own.courses["cosine"][own.seeds.index(seed)])
    assert row.acc() == pytest.approx([100 * measures.acc for measures in row.measures])
    assert [result.label for result in results(request, outcome(request, {}), steps=False)][:2] == [
        "GEM",
        "GEM + predicted",
    ]


@pytest.mark.parametrize(
    ("kind", "pictures"),
    [
        ("table", []),
        ("sweeps", ["figure"]),
        ("curves", ["figure"]),
        ("courses", ["figure"]),
        ("scatter", ["figure"]),
        ("matrices", ["figure", *(f"difference-{row}" for row in ("predicted", "p-0.25", "p-1", "ratio-1"))]),
    ],
)
def test_every_kind_has_its_pictures(kind: Kind, pictures: list[str], place: Path) -> None:
    request = wanted(place, kind)
    drawn = draw(request, outcome(request, {}))
    assert [path.name for path in drawn] == [f"{name}.png" for name in pictures]
    assert all(path.with_suffix(".svg").read_text().startswith("<?xml") for path in drawn)


@pytest.mark.parametrize("kind", ["sweeps", "curves", "courses", "scatter", "matrices"])
def test_without_trained_rows_there_is_nothing_to_draw(kind: Kind, tmp_path: Path) -> None:
    request = wanted(tmp_path, kind)
    assert draw(request, outcome(request, {})) == []


def test_a_quick_look_says_so_in_its_pictures(place: Path) -> None:
    request = wanted(place, "sweeps", quick=True)
    (path,) = draw(request, outcome(request, {}))
    assert "QUICK LOOK" in path.with_suffix(".svg").read_text()
