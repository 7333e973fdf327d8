from pathlib import Path

import numpy as np

from gradcast.results.report.blocks import Fold, Gallery, Picture, Section
from gradcast.results.report.read import read_run
from gradcast.results.report.sections import sections
from gradcast.results.report.summary import standing
from gradcast.results.report.tables import Table
from tests.results.report.copies import copy_of_run, unfinish, with_portrait
from tests.trained_runs import finished


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
    feature_map = with_portrait(directory, "random")
    content = sections(read_run(directory.path))
    names = [section.name for section in content]
    assert names.index("features") == names.index("stream") + 1
    drawn = {name: picture for name, picture in pictures(content).items() if name.startswith("features")}
    assert list(drawn) == ["features-random"]
    assert "private ones: task told 100 %, chance 50 %" in drawn["features-random"].alt
    (table,) = (block for block in content[names.index("features")].blocks if isinstance(block, Table))
    numbers = [cell.value for cell in table.rows[0][1:]]
    assert numbers == [100 * feature_map.shared.probe, 100.0, 50.0]
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


def test_few_labels_have_curves_over_steps_and_nothing_of_streams(tmp_path: Path) -> None:
    run = read_run(copy_of_run(tmp_path / "a", few=True).path)
    content = sections(run)
    names = ["results", "differences", "course", "unlabelled", "cost", "specification"]
    assert [section.name for section in content] == names
    drawn = pictures(content)
    told = {"curve-test-error", "curve-loss", "curve-pseudo-accuracy", "curve-signal-loss", "curve-label-movement"}
    assert drawn.keys() == {"paired-differences", "curve-cosine", *told}
    (axis,) = drawn["curve-test-error"].figure.axes
    assert [line.get_xdata().tolist() for line in axis.get_lines()] == [[5, 10, 15, 20]] * 4
    last = [100 * (1 - own.over_seeds("acc").mean) for own in run.results]
    np.testing.assert_allclose([line.get_ydata()[-1] for line in axis.get_lines()], last, rtol=1e-6)
    assert len(axis.collections) == 4  # a band a row
    assert drawn["curve-test-error"].alt.startswith("Curves of the test error (%) at every test for labels alone, MG")
    tables = {block.name: block for section in content for block in section.blocks if isinstance(block, Table)}
    assert tables["results"].head[:3] == ["row", "last error (%)", "best error (%)"]
    assert [row[1].value for row in tables["results"].rows] == [
        own.diagnostics["last_error"].mean for own in run.results
    ]
    assert not [row for row in tables["diagnostics"].rows if "error" in row[0].text]
    words = " ".join(block for section in content for block in section.blocks if isinstance(block, str))
    assert "chosen on the test images" in words
    assert "known to this report and to nothing that learns" in words
    titles = words + " ".join(title for table in tables.values() for title in (table.title, *table.head))
    assert not [word for word in ("BWT", "FWT", "ACC", "forgetting", "stream") if word in titles]


def test_few_labels_on_their_way_show_the_tests_so_far(tmp_path: Path) -> None:
    directory = copy_of_run(tmp_path / "a", few=True)
    (directory.path / "mg/env.json").unlink()
    for seed in range(3):
        accuracy, metrics = (directory.path / f"mg/seed-{seed}" / name for name in ("accuracy.csv", "metrics.jsonl"))
        accuracy.write_text("".join(accuracy.read_text().splitlines(keepends=True)[:2]))
        metrics.write_text("".join(metrics.read_text().splitlines(keepends=True)[: 2 + (seed == 0)]))
    run = read_run(directory.path)
    drawn = pictures(sections(run))
    _, line, *_ = drawn["curve-test-error"].figure.axes[0].get_lines()
    assert line.get_xdata().tolist() == [5, 10, 15]
    assert line.get_linestyle() == "--"
    assert standing(run.rows[1]) == "between 10 and 15 of 20 steps, seed by seed"
    for metrics in directory.path.glob("mg/seed-*/metrics.jsonl"):
        metrics.unlink()
    assert standing(read_run(directory.path).rows[1]) == "0 of 20 steps"


def test_the_size_of_h_stands_below_what_the_signal_did() -> None:
    run = read_run(finished()[0].path)
    (signal,) = (section for section in sections(run) if section.name == "signal")
    assert signal.blocks[-1] == "The gradient learner h has 1,824 parameters."
