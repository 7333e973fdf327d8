import numpy as np
import pytest

from gradcast.reproduce.cells import Cell
from gradcast.reproduce.reproduce import outcome
from gradcast.reproduce.rows import merged, results
from tests.reproduce.scene import trained, wanted


def test_seeds_are_put_together_from_wherever_they_lie() -> None:
    request = wanted(trained())
    found = outcome(request, {})
    line = next(line for line in found if line.item.name == "predicted")
    assert line.item.setting is not None
    parts = Cell(line.item.setting).results(request.cells, steps=True)
    row = merged(line, [0, 1, 2], parts)
    assert len({part[0].path for part in parts.values()}) == 2
    for index, seed in enumerate(row.seeds):
        own = parts[seed][1]
        assert np.array_equal(row.matrices[index], own.matrices[own.seeds.index(seed)])
        assert np.array_equal(row.courses["cosine"][index], own.courses["cosine"][own.seeds.index(seed)])
    assert row.acc() == pytest.approx([100 * measures.acc for measures in row.measures])
    assert [result.label for result in results(request, found, steps=False)][:2] == ["GEM", "GEM + predicted"]
