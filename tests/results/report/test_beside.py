import shutil
from pathlib import Path

import pytest

from gradcast.errors import GradcastError
from gradcast.results.report.beside import environment, feature_map, follow_links, head_starts, stream
from gradcast.results.report.read import read_run, read_runs
from gradcast.runs.directory import RunDirectory
from tests.results.report.copies import copy_of_run, with_portrait


@pytest.mark.parametrize("content", ["{", "[]", ""])
def test_a_row_whose_data_are_not_known_keeps_its_numbers_and_says_so(tmp_path: Path, content: str) -> None:
    directory = copy_of_run(tmp_path / "a")
    file = directory.path / "random" / "stream.json"
    assert stream(directory, "random") == ""
    file.write_text(content)
    run = read_run(directory.path)
    assert [own.name for own in run.results] == ["base", "predicted", "random"]
    (sentence,) = run.damage
    assert sentence == stream(directory, "random")
    assert sentence.startswith(f"Which data a row saw is not known: {file} cannot be read (")
    assert sentence.endswith(f"); delete {file.parent} and run again")


def test_a_link_that_leads_nowhere_is_no_row_that_has_not_begun(tmp_path: Path) -> None:
    run = copy_of_run(tmp_path / "table" / "gem")
    (tmp_path / "cells").mkdir()
    shutil.move(run.seed("random", 1), tmp_path / "cells" / "seed-1")
    run.seed("random", 1).symlink_to("../../../cells/seed-1")
    (spec_row,) = [row for row in run.spec.rows if row.name == "random"]
    follow_links(run, run.spec, spec_row)
    assert read_runs(tmp_path / "table").damage == []
    copy = tmp_path / "elsewhere" / "table"
    shutil.copytree(tmp_path / "table", copy, symlinks=True)
    moved = RunDirectory(copy / "gem")
    with pytest.raises(
        GradcastError, match=r"random/seed-1 is a link to ../../../cells/seed-1, where nothing is; copy"
    ):
        follow_links(moved, moved.spec, spec_row)
    found = read_runs(copy)
    assert [own.name for own in found.runs[0].results] == ["base", "predicted"]
    assert "where nothing is" in found.damage[0]


def test_a_portrait_or_what_is_wrong_with_it(tmp_path: Path) -> None:
    directory = copy_of_run(tmp_path / "a")
    assert feature_map(directory, "base", 0) == (None, "")
    drawn = with_portrait(directory, "base")
    found, flaw = feature_map(directory, "base", 0)
    assert found is not None
    assert (found.chance, flaw) == (drawn.chance, "")
    (directory.seed("base", 0) / "features.json").write_text("{")
    found, flaw = feature_map(directory, "base", 0)
    assert found is None
    assert flaw.startswith("A picture of features is missing: ")


def test_an_environment_or_what_is_wrong_with_it(tmp_path: Path) -> None:
    directory = copy_of_run(tmp_path / "a")
    file = directory.path / "base" / "env.json"
    text, time, flaw = environment(directory, "base")
    assert (text, flaw) == (file.read_text(), "")
    assert "seconds" in time
    file.write_text("[]")
    assert environment(directory, "base")[:2] == ("", {})
    assert environment(directory, "base")[2].endswith(
        f"env.json cannot be read (it has no times); delete {file.parent} and run again"
    )


def test_curves_of_head_starts_are_read_and_damage_is_told(tmp_path: Path) -> None:
    directory = copy_of_run(tmp_path / "a")
    for seed in (0, 1, 2):
        directory.head_start("random", seed, {"loss": [[1, 3.0 + seed], [2, 2.0]], "nearest_neighbour": []})
    found, flaw = head_starts(directory, "random", [0, 1, 2])
    assert flaw == ""
    assert found["loss"].tolist() == [[1, 2], [3, 2], [4, 2], [5, 2]]
    assert "nearest_neighbour" not in found
    file = directory.seed("random", 1) / "head_start.json"
    for content in ("{", "[]", '{"loss": [[1, 2, 3], [4]]}', '{"loss": [["a", 2]]}', '{"loss": [[1, 1e999]]}'):
        file.write_text(content)
        found, flaw = head_starts(directory, "random", [0, 1, 2])
        assert found == {}
        assert flaw.startswith(f"Curves of a head start are missing: {file} cannot be read (")
    file.unlink()
    assert f"{file} is missing" in head_starts(directory, "random", [0, 1, 2])[1]
