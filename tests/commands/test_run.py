import json
from pathlib import Path

from PIL import Image

from tests.commands.process import cli, small


def test_run_prints_table_verdict_and_place_then_is_not_repeated(tmp_path: Path) -> None:
    first = cli("run", *small(), "--seeds", "2", "--device", "cpu", cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    assert "2 seeds, mean ± 95 % confidence interval" in first.stdout
    assert "GEM + predicted gradients against GEM:" in first.stdout
    assert "Results: runs/digits-" in first.stdout
    assert "120/120" not in first.stdout  # progress goes to standard error
    again = cli("run", *small(), "--seeds", "2", "--device", "cpu", "--json", cwd=tmp_path)
    assert "finished earlier, not run again" in again.stderr
    result = json.loads(again.stdout)
    assert [row["name"] for row in result["rows"]] == ["base", "predicted", "random"]
    assert result["rows"][1]["against_first_row"]["difference"]["seeds"] == 2
    assert (tmp_path / result["directory"] / "report.md").is_file()


def test_a_specification_file_and_a_folder_pool_with_a_bad_image(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    for number in range(6):
        Image.new("RGB", (12, 12), (40 * number, 0, 0)).save(tmp_path / "photos" / f"{number}.png")
    (tmp_path / "photos" / "bad.png").write_text("no image")
    (tmp_path / "mine.toml").write_text(
        'seeds = [0]\nstream = {tasks = 2, samples = 20}\nsignal = {name = "predicted"}\npolicy = {p = 1.0}\n'
        'pool = {name = "folder", path = "photos"}\n'
    )
    found = cli("run", "mine.toml", "--out", "here", cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    assert "warning: skipped" in found.stderr
    assert "photos/bad.png" in found.stderr
    assert list((tmp_path / "here").glob("mine-*/run/seed-0/weights.safetensors"))


def test_show_prints_a_specification_that_runs_as_it_is(tmp_path: Path) -> None:
    shown = cli("run", "mnist-r", "--set", "stream.tasks=4", "--show", cwd=tmp_path)
    assert "tasks = 4" in shown.stdout
    (tmp_path / "again.toml").write_text(shown.stdout)
    assert cli("run", "again.toml", "--show", cwd=tmp_path).stdout == shown.stdout
    assert not (tmp_path / "runs").exists()


def test_presets_are_listed(tmp_path: Path) -> None:
    listed = cli("presets", cwd=tmp_path).stdout
    assert all(name in listed for name in ("digits", "mnist-r", "mnist-p"))
