from dataclasses import replace

import numpy as np
import pytest

from gradcast.reproduce.cells import Cell
from gradcast.reproduce.reproduce import outcome
from gradcast.reproduce.rows import left_out, result, results
from tests.reproduce.scene import trained, wanted


def test_seeds_are_put_together_from_wherever_they_lie() -> None:
    request = wanted(trained(), "matrices")
    found = outcome(request, {})
    line = next(line for line in found if line.item.name == "predicted")
    assert line.item.setting is not None
    parts = Cell(line.item.setting).results(request.cells, steps=True)
    row = result(line)
    assert row is not None
    assert len({part[0].path for part in parts.values()}) == 2
    for index, seed in enumerate(row.seeds):
        own = parts[seed][1]
        assert np.array_equal(row.matrices[index], own.matrices[own.seeds.index(seed)])
        assert np.array_equal(row.courses["cosine"][index], own.courses["cosine"][own.seeds.index(seed)])
    assert row.acc() == pytest.approx([100 * measures.acc for measures in row.measures])
    assert [result.label for result in results(found)][:2] == ["GEM", "GEM + predicted"]


def test_rows_that_a_figure_lacks_are_named_with_the_command_that_trains_them() -> None:
    request = wanted(trained(), "matrices")
    gem, *others = outcome(request, {})
    assert left_out(request, [gem, *others]) == []
    assert gem.trained is not None
    old = replace(gem, trained=replace(gem.trained, task_numbers={}))
    some = replace(gem, trained=replace(gem.trained, task_numbers={0: gem.trained.task_numbers[0]}))
    (sentence,) = left_out(replace(request, dtype="bf16"), [old, *others])
    assert sentence.startswith("Not in the figure, or not with all seeds: GEM. ")
    assert sentence.endswith("gradcast reproduce T1 --rows gem --set dtype=bf16 trains them")
    assert [row.name for row in results([old, *others])] == [row.name for row in results(others)]
    assert len(left_out(request, [some])) == 1
    (drawn,) = results([some])
    assert drawn.seeds == [0]
    assert left_out(wanted(trained(), "sweeps"), [old]) == []  # it shows measures alone
