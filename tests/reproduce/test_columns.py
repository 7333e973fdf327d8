from gradcast.reproduce.columns import columns, title
from gradcast.reproduce.experiment import load
from gradcast.reproduce.outcome import Line
from gradcast.results.statistics import Interval
from tests.reproduce.scene import experiment

OURS = {"acc": Interval(70.0, 69.0, 71.0, 3)}


def lines(name: str, trained: set[str]) -> list[Line]:
    return [Line(item, OURS if item.name in trained else {}) for item in load(name).items]


def test_a_column_is_a_row_and_those_compared_with_it_as_far_as_they_are_trained() -> None:
    found = columns(lines("F8", {"resnet-gem", "resnet-gem-predicted", "effnet-dcl-predicted"}), "base")
    assert [(column.title, list(column.lines)) for column in found] == [
        ("ResNet GEM", ["base", "+ predicted"]),
        ("EffNet DCL", ["+ predicted"]),
    ]
    assert found[0].lines["+ predicted"].item.name == "resnet-gem-predicted"


def test_figure_8_has_its_four_hosts_and_figure_9_its_four_panels() -> None:
    every = {name: columns(lines(name, {item.name for item in load(name).items}), "own") for name in ("F8", "F9")}
    assert [column.title for column in every["F8"]] == ["ResNet GEM", "ResNet DCL", "EffNet GEM", "EffNet DCL"]
    assert [column.title for column in every["F9"]] == [
        f"ResNet {host} + {kind} pseudo labels" for host in ("GEM", "DCL") for kind in ("one-hot", "soft")
    ]
    assert {tuple(column.lines) for column in every["F9"]} == {("own", "all classes seen")}


def test_a_title_tells_the_setting_not_the_name() -> None:
    changed = load("F8").changed({"model": {"name": "mlp"}}, {"resnet-gem"}).item("resnet-gem").setting
    assert changed is not None
    assert title(changed) == "MLP GEM"


def test_columns_of_one_title_are_told_apart_by_their_rows() -> None:
    changed = load("F8").changed({"model": {"name": "mlp"}}, {item.name for item in load("F8").items})
    found = columns([Line(item, OURS) for item in changed.items], "base")
    hosts = [f"{network} {learner}" for network in ("ResNet", "EffNet") for learner in ("GEM", "DCL")]
    assert [column.title for column in found] == [f"{host}: MLP {host[-3:]}" for host in hosts]


def test_rows_that_cannot_be_run_head_no_column() -> None:
    (column,) = columns([Line(item, OURS) for item in experiment().items if item.name in ("gem", "ewc")], "base")
    assert list(column.lines) == ["base", "EWC"]
