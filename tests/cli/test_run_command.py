import json
import signal
import subprocess
import time
from pathlib import Path

from PIL import Image

from gradcast.runs.checkpoint import file
from tests.cli.process import ALONE, called, cli, small, started


def test_run_prints_table_verdict_and_place_then_is_not_repeated(tmp_path: Path) -> None:
    first = cli("run", *small(), "--seeds", "2", "--device", "cpu", cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    assert "2 seeds, mean ± 95 % confidence interval" in first.stdout
    assert "GEM + predicted gradients against GEM:" in first.stdout
    assert "Results: runs/digits-" in first.stdout
    assert "120/120" not in first.stdout  # progress goes to standard error
    again = called("run", *small(), "--seeds", "2", "--device", "cpu", "--json", cwd=tmp_path)
    assert "finished earlier, not run again" in again.stderr
    result = json.loads(again.stdout)
    assert [row["name"] for row in result["rows"]] == ["base", "predicted", "random"]
    assert result["rows"][1]["against_first_row"]["difference"]["seeds"] == 2
    assert (tmp_path / result["directory"] / "report.md").is_file()


def test_some_rows_are_run_and_the_first_of_them_is_the_base(tmp_path: Path) -> None:
    shown = called("run", *small(), "--seeds", "2", "--rows", "random,predicted", "--json", cwd=tmp_path).stdout
    rows = json.loads(shown)["rows"]
    assert [row["name"] for row in rows] == ["predicted", "random"]
    assert [bool(row["against_first_row"]) for row in rows] == [False, True]
    wrong = cli("run", *small(), "--rows", "randon", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "has no row 'randon'; did you mean 'random'?" in wrong.stderr


def test_a_specification_file_and_a_folder_pool_with_a_bad_image(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    for number in range(6):
        Image.new("RGB", (12, 12), (40 * number, 0, 0)).save(tmp_path / "photos" / f"{number}.png")
    (tmp_path / "photos" / "bad.png").write_text("no image")
    (tmp_path / "mine.toml").write_text(
        'seeds = [0]\nstream = {tasks = 2, samples = 20}\nsignal = {name = "predicted"}\npolicy = {p = 1.0}\n'
        'pool = {name = "folder", path = "photos"}\n'
    )
    found = cli("run", "mine.toml", *ALONE, "--out", "here", cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    assert "warning: skipped" in found.stderr
    assert "photos/bad.png" in found.stderr
    assert list((tmp_path / "here").glob("mine-*/run/seed-0/weights.safetensors"))


def test_show_prints_a_specification_that_runs_as_it_is(tmp_path: Path) -> None:
    shown = called("run", "mnist-r", "--set", "stream.tasks=4", "--show", cwd=tmp_path)
    assert "tasks = 4" in shown.stdout
    (tmp_path / "again.toml").write_text(shown.stdout)
    assert called("run", "again.toml", "--show", cwd=tmp_path).stdout == shown.stdout
    assert not (tmp_path / "runs").exists()


def test_presets_are_listed(tmp_path: Path) -> None:
    listed = called("presets", cwd=tmp_path).stdout
    assert all(name in listed for name in ("digits", "mnist-r", "mnist-p"))


LONG = ("run", *small("stream.epochs=2000"), "--seeds", "2", "--device", "cpu")


def begun(cwd: Path, after: int) -> subprocess.Popen[str]:
    """A run in its own process that has written a checkpoint later than ``after`` steps."""
    process, limit = started(*LONG, "--checkpoint-steps", "20", cwd=cwd), time.monotonic() + 60
    while latest(cwd) <= after:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < limit
        time.sleep(0.02)
    return process


def latest(cwd: Path) -> int:
    """Steps of the newest checkpoint, which is whole; -1 before there is any."""
    found = [path for row in cwd.glob("runs/*/base") for path in file.files(row)]
    return int(found[0].stem.partition("-")[2]) if found else -1


def test_signals_stop_a_run_with_a_checkpoint_and_nobody_else_may_write(tmp_path: Path) -> None:
    first = begun(tmp_path, -1)
    second = cli(*LONG, cwd=tmp_path)
    assert second.returncode == 2
    assert "another process is writing runs/digits-" in second.stderr
    first.send_signal(signal.SIGINT)
    _, said = first.communicate(timeout=60)
    assert first.returncode == 130
    steps = latest(tmp_path)
    assert (
        said.splitlines()[-1] == f"stopped before step {steps}, checkpoint written; the same command goes on from there"
    )
    again = begun(tmp_path, steps)
    for _ in range(3):  # the later ones meet the checkpoint being written
        again.send_signal(signal.SIGTERM)
        time.sleep(0.005)
    _, said = again.communicate(timeout=60)
    assert again.returncode == 143
    assert f"GEM: goes on after step {steps}" in said
    (row,) = tmp_path.glob("runs/*/base")
    content = file.read(file.files(row)[0])
    assert content.facts["position"][2] == latest(tmp_path) > steps


def test_resume_needs_something_to_go_on_with(tmp_path: Path) -> None:
    found = called("run", *small(), "--resume", cwd=tmp_path)
    assert found.returncode == 2
    assert "there is no unfinished run of this specification in runs/digits-" in found.stderr
    assert not (tmp_path / "runs").exists()
    both = called("run", *small(), "--resume", "--fresh", cwd=tmp_path)
    assert both.returncode == 2
    assert "leave one out" in both.stderr
