from pathlib import Path

import numpy as np

from gradcast.report.blocks import Fold, Gallery, Picture, Section
from gradcast.report.read import read_run
from gradcast.report.sections import sections
from gradcast.report.tables import Table
from tests.report.copies import copy_of_run, unfinish, with_portrait


def pictures(content: list[Section]) -> dict[str, Picture]:
    galleries = [block for section in content for block in section.blocks if isinstance(block, Gallery)]
    return {picture.name: picture for gallery in galleries for picture in gallery.pictures}


def test_a_finished_run_has_all_sections_in_order(tmp_path: Path) -> None:
    content = sections(read_run(copy_of_run(tmp_path / "a").path))
    names = ["results", "differences", "matrices", "stream", "signal", "cost", "specification"]
    assert [section.name for section in content] == names
    drawn = pictures(content)
    assert {"paired-differences", "accuracy-matrix-base", "difference-matrix-random", "curve-loss"} <= drawn.keys()
    assert "difference-matrix-base" not in drawn
    assert "curve-cosine" in drawn
    assert all(len(picture.alt) > 20 for picture in drawn.values())


def test_difference_maps_share_a_scale_that_fits_all(tmp_path: Path) -> None:
    run = read_run(copy_of_run(tmp_path / "a").path)
    drawn = pictures(sections(run))
    maps = [drawn[f"difference-matrix-{name}"].figure.axes[0].get_images()[1] for name in ("predicted", "random")]
    base = run.results[0].matrices.mean(0)
    largest = max(np.abs(100 * (own.matrices.mean(0) - base)).max() for own in run.results[1:])
    for image in maps:
        np.testing.assert_allclose(image.get_clim(), (-largest, largest))


def test_rows_with_two_kinds_of_features_show_them_and_a_number(tmp_path: Path) -> None:
    directory = copy_of_run(tmp_path / "a")
    portrait = with_portrait(directory, "random")
    content = sections(read_run(directory.path))
    names = [section.name for section in content]
    assert names.index("features") == names.index("stream") + 1
    drawn = {name: picture for name, picture in pictures(content).items() if name.startswith("features")}
    assert list(drawn) == ["features-random"]
    assert "private ones: task told 100 %, chance 50 %" in drawn["features-random"].alt
    (table,) = (block for block in content[names.index("features")].blocks if isinstance(block, Table))
    numbers = [cell.value for cell in table.rows[0][1:]]
    assert numbers == [100 * portrait.shared.probe, 100.0, 50.0]
    assert len(table.rows) == 1


def test_specification_and_environment_are_complete(tmp_path: Path) -> None:
    directory = copy_of_run(tmp_path / "a")
    *_, last = sections(read_run(directory.path))
    texts = [block.text for block in last.blocks if isinstance(block, Fold)]
    environments = [(directory.path / row / "env.json").read_text() for row in ("base", "predicted", "random")]
    assert texts == [(directory.path / "spec.toml").read_text(), *environments]


def test_rows_on_their_way_have_dashed_curves(tmp_path: Path) -> None:
    directory = copy_of_run(tmp_path / "a")
    unfinish(directory, "random", lines=3)
    content = sections(read_run(directory.path))
    assert content[0].name == "unfinished"
    lines = pictures(content)["curve-accuracy"].figure.axes[0].get_lines()
    assert [line.get_linestyle() for line in lines] == ["-", "-", "--"]
    assert [len(line.get_xdata()) for line in lines] == [3, 3, 2]


def test_without_a_finished_row_there_are_curves_and_no_table_of_results(tmp_path: Path) -> None:
    directory = copy_of_run(tmp_path / "a")
    for row in ("base", "predicted", "random"):
        unfinish(directory, row, lines=2)
    content = sections(read_run(directory.path))
    assert [section.name for section in content] == ["unfinished", "stream", "signal", "specification"]
    assert not [b for s in content for b in s.blocks if isinstance(b, Table) and b.name != "unfinished"]
