from pathlib import Path

import pytest

from gradcast.cluster.cell_task import CellTask, cell_tasks, packed, unpack
from gradcast.errors import GradcastError
from gradcast.runs.cell_key import cell_key
from tests.trained_runs import small


def tasks(missing: list[int], at_once: int | None = None) -> list[CellTask]:
    spec = small()
    row = spec.rows[1]
    return list(cell_tasks(spec, row, cell_key(row.setting, spec.dtype, {}), missing, at_once))


def test_seeds_of_a_row_are_one_task_or_several() -> None:
    assert [task.spec.seeds for task in tasks([0, 2, 5])] == [[0, 2, 5]]
    assert [task.spec.seeds for task in tasks([0, 2, 5], 2)] == [[0, 2], [5]]
    assert tasks([]) == []
    (task,) = tasks([3])
    assert [row.name for row in task.spec.rows] == ["predicted"]
    assert task.label == "GEM + predicted gradients, seed 3"
    assert tasks([0, 1, 2])[0].label.endswith("seeds 0 to 2")
    assert len({each.name for each in [task, *tasks([3, 4]), *tasks([4])]}) == 3


def test_a_folder_travels(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "c.bin").write_bytes(b"\x00\xff")
    unpack(packed(tmp_path / "a"), tmp_path / "z")
    assert (tmp_path / "z" / "b" / "c.bin").read_bytes() == b"\x00\xff"


def test_what_lies_outside_of_the_folder_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(GradcastError, match="not trusted"):
        unpack({"../evil": b""}, tmp_path / "in")
    assert not (tmp_path / "evil").exists()
