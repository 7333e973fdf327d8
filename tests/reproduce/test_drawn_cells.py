from dataclasses import replace

from gradcast.reproduce.cells import Cell
from gradcast.reproduce.drawn_cells import drawn_cells
from gradcast.reproduce.experiment import load
from tests.reproduce.scene import experiment


def cell(place: str) -> str:
    name, _, row = place.partition("/")
    setting = load(name).item(row).setting
    assert setting is not None
    return Cell(setting, "bf16").name


def test_rows_of_tables_that_a_figure_shows_are_drawn() -> None:
    drawn = drawn_cells(load("E3"), "bf16")
    assert {cell("E3/resnet-gem"), cell("E3/effnet-dcl-1-pl"), cell("E8/uniform-scaled")} <= drawn
    assert cell("E3/resnet-gem-mg") not in drawn
    assert not drawn_cells(load("E3"), "float32") & drawn


def test_all_rows_of_such_a_figure_are_drawn_and_those_of_a_table_are_not() -> None:
    own = experiment()
    figure = replace(own, header=own.header.model_copy(update={"kind": "matrices"}))
    added = drawn_cells(figure, "float32") - drawn_cells(own, "float32")
    assert added == {Cell(item.setting).name for item in own.items if item.setting is not None}
