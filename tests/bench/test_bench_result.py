import json
from importlib.resources import files
from pathlib import Path

import pytest

from gradcast.bench.bench_result import Bench, Comparison, measured, read_bench
from gradcast.bench.few_labels import Speed
from gradcast.bench.ray_times import RayTimes
from gradcast.bench.saving import Cost
from gradcast.bench.step_times import Timing
from gradcast.runs.jsontext import to_json


def compared(pinned: Timing | None) -> Comparison:
    return Comparison("mlp", "float32", 20, Timing(90.0, None, 0.0), pinned, Timing(30.0, 31.0, 0.5))


def test_ratio_is_how_many_times_faster_ours_is() -> None:
    entry = compared(Timing(60.0, None, 0.0))
    assert (entry.ratio, entry.pinned_ratio) == (3.0, 2.0)
    assert compared(None).pinned_ratio is None


def test_what_the_command_prints_as_json_is_read_back(tmp_path: Path) -> None:
    found = Bench(
        {"device": "cpu", "threads": 1, "versions": {"torch": "2.13.0"}},
        comparisons=[compared(None)],
        checkpoints=[Cost(2, 10.0, 1.0, 5.0, 64.0, gpu=False)],
        few_labels=[Speed("bf16", 3, 128, 32, 42.0, None)],
        ray=RayTimes(apart=20.0, together=12.0, many=24.0, cell_seconds=1.0),
    )
    file = tmp_path / "own.json"
    file.write_text(to_json(found.as_dict()), encoding="utf-8")
    assert read_bench(file) == found


def test_a_file_with_a_wrong_entry_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "own.json"
    file.write_text('{"machine": {}, "growth": [{"network": "mlp"}]}', encoding="utf-8")
    with pytest.raises(ValueError, match=r"growth\.0\.dtype"):
        read_bench(file)


def test_files_of_the_package_are_what_the_command_would_print() -> None:
    """Their ratios and rates too."""
    found = measured()
    assert list(found) == ["h200", "cpu"]
    for name, own in found.items():
        text = files("gradcast.bench").joinpath("measured", f"{name}.json").read_text(encoding="utf-8")
        assert json.loads(to_json(own.as_dict())) == json.loads(text)
        assert own.machine["device"]
        assert len(text) < 40_000
