import json
from pathlib import Path

import pytest

from gradcast.cli.reproduce_list import standing
from gradcast.reproduce.experiment import names
from tests.cli.process import called
from tests.reproduce.scene import TEXT, experiment, trained


def test_list_shows_every_table_and_figure_with_its_state(tmp_path: Path) -> None:
    shown = called("reproduce", "list", cwd=tmp_path).stdout
    states = json.loads(called("reproduce", "--json", cwd=tmp_path).stdout)
    assert all(f"  {name} " in shown for name in names())
    assert list(states) == names()
    counts = {
        "rows": 57,
        "measured": 33,
        "published": 39,
        "published_measured": 24,
        "run": 0,
        "begun": 0,
        "not_reproduced": 1,
    }
    assert states["E3"] == {"title": "Table 5: iCIFAR-100", **counts}
    done, rows = (sum(own[key] for own in states.values()) for key in ("published_measured", "published"))
    assert f"{done} of {rows} rows with published figures are measured." in shown
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize(("seeds", "run", "begun"), [(3, 6, 0), (4, 0, 6)])
def test_rows_with_some_of_their_seeds_are_begun(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, seeds: int, run: int, begun: int
) -> None:
    own = experiment(TEXT.replace("seeds = 3", f"seeds = {seeds}"))  # four rows, and those of sweeps that are the same
    for module in ("reproduce", "measured_tables"):
        monkeypatch.setattr(f"gradcast.reproduce.{module}.load", lambda name: own)
    monkeypatch.setattr("gradcast.reproduce.measured_tables.folder", lambda: tmp_path)
    found = standing(own, trained(), [])
    assert (found["rows"], found["run"], found["begun"], found["not_reproduced"]) == (9, run, begun, 1)


def test_the_list_leaves_out_what_cannot_be_changed_so(tmp_path: Path) -> None:
    found = called("reproduce", "list", "--json", "--set", "stream.epochs=2", cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    assert {"E1", "E3"} <= json.loads(found.stdout).keys() <= set(names()) - {"E4", "E5", "E6"}
    assert "left out: E4, E5: the row 'a-gem' cannot be changed so" in found.stderr
    assert "E6: the row 'svhn-supervised' cannot be changed so: schedule.name = 'steps' has" in found.stderr
