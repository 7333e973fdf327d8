import json
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest

from gradcast.reproduce.correlations import clouds
from gradcast.reproduce.draw import draw
from gradcast.reproduce.experiment import load
from gradcast.reproduce.outcome import Line
from gradcast.reproduce.quick_rows import shortened
from gradcast.reproduce.reproduce import Request, outcome, request, train
from gradcast.reproduce.show_table import save
from gradcast.reproduce.views import lay_out
from gradcast.results.report.read import read_runs
from gradcast.results.verdict import Paired
from tests.reproduce.pools import SMALL, pools


@cache
def trained() -> Path:
    """A folder where both tables are trained, short and small; only to be looked at."""
    out = Path(mkdtemp())
    data = pools(Path(mkdtemp()))
    for name in ("P1", "P2"):
        assert train(wanted(name, out), data=data, device="cpu", display=None) == {}
    return out


def wanted(name: str, out: Path) -> Request:
    return request(name, out=out, quick=True, settings=SMALL)


def found(name: str) -> tuple[Request, list[Line]]:
    own = wanted(name, trained())
    return own, outcome(own, {})


def steps(name: str) -> dict[str, int]:
    return {item.name: item.setting.head_start.steps for item in shortened(load(name)).items if item.setting}


def test_head_starts_keep_their_proportions_and_rows_without_one_have_none() -> None:
    assert steps("P1") == dict.fromkeys((item.name for item in load("P1").items), 15) | {"base": 0}
    lengths = steps("P2")
    assert [lengths[f"steps-{count}"] for count in (500, 1500, 3000, 6000)] == [2, 8, 15, 30]
    assert [lengths[f"images-{count}"] for count in (1200, 4000, 12000)] == [15, 15, 15]


def test_rows_are_smaller_in_what_they_have() -> None:
    rows = {item.name: item.setting for item in shortened(load("E3")).items if item.setting is not None}
    assert {own.stream.tasks for own in rows.values()} == {3}
    assert (rows["resnet-gem"].learner.memory, rows["resnet-gem"].policy.start) == (32, 5)  # type: ignore[attr-defined]
    assert not hasattr(rows["mas"].learner, "memory")
    whole = load("E3").item("mas").setting
    assert whole is not None
    assert rows["mas"].learner == whole.learner


def test_a_quick_look_trains_every_pool_and_equal_rows_once() -> None:
    rows = {name: {line.item.name: line for line in found(name)[1]} for name in ("P1", "P2")}
    assert all(line.ours["acc"].seeds == 2 for own in rows.values() for line in own.values())
    cells = {name: {row: line.trained.cell for row, line in own.items() if line.trained} for name, own in rows.items()}
    first, second = cells["P1"], cells["P2"]
    assert len(set(first.values())) == 9
    assert second["base"] == first["base"]
    assert second["pixels"] == first["pixels"]
    assert second["steps-3000"] == second["images-12000"] == first["tiny-imagenet"]
    assert second["images-1200"] == first["tiny-imagenet-1200"]
    trainings = list((trained() / "cells").glob("*/spec.toml"))
    assert len(trainings) == len({*first.values(), *second.values()}) == 13


def test_pools_make_different_rows() -> None:
    heads = [line.trained for line in found("P1")[1] if line.trained is not None]
    assert len({tuple(own.values("acc") + own.values("bwt")) for own in heads}) > 5


@pytest.mark.parametrize("name", ["P1", "P2"])
def test_every_pool_is_compared_with_the_base_and_page_and_table_say_the_same(name: str) -> None:
    request, lines = found(name)
    paired = {line.item.name: line.paired for line in lines if line.paired is not None}
    assert paired.keys() == {line.item.name for line in lines} - {"base"}
    assert paired["pixels"].kind == "control"
    (run,) = read_runs(lay_out(request, lines)[0]).runs
    told = {row.name: row.paired for row in run.results if row.paired is not None}
    assert {row: _said(own) for row, own in told.items()} == {row: _said(own) for row, own in paired.items()}


def _said(paired: Paired) -> tuple[int, float | None, str]:
    return paired.family, paired.wilcoxon_holm, paired.verdict


def test_the_table_has_nothing_published_and_the_figure_has_the_gains() -> None:
    request, lines = found("P2")
    place = save(request, lines)
    head = next(line for line in (place / "table.md").read_text().splitlines() if line.startswith("| QUICK"))
    assert head.endswith("| ACC (%) | BWT | FWT | gain | verdict |")
    assert json.loads((place / "result.json").read_text())["rows"][0]["name"] == "base"
    (picture,) = draw(request, lines, clouds(request, lines))
    drawn = picture.with_suffix(".svg").read_text()
    assert drawn.count("gain in ACC (points)") == 2
    assert all(f">{value}<" in drawn for value in (500, 1500, 3000, 6000, 1200, 4000, 12000))
