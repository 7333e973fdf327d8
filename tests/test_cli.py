import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

import gradcast
from gradcast.cli import main
from tests.runs import SMALL


def cli(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command as a user calls it, in its own process."""
    command = [sys.executable, "-m", "gradcast", *arguments]
    env = {key: value for key, value in os.environ.items() if key != "GRADCAST_DATA"} | {"COLUMNS": "80"} | environment
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, env=env)


def small(*more: str) -> list[str]:
    return [part for setting in (*SMALL, *more) for part in ("--set", setting)]


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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "digitz"], "did you mean 'digits'?"),
        (["run", "--set", "stream.taks=3"], "did you mean 'stream.tasks'?"),
        (["run", "--set", "stream.source=imagenet"], "must be 'digits', 'mnist'"),
        (["run", "--set", "stream.batch=-1"], "stream.batch = -1 is not valid"),
        (["run", "--set", "policy.p=2"], "policy.p = 2"),
        (["run", "--set", "stream.scenario=split", "--set", "stream.tasks=11"], "digits has 10"),
        (["run", "mnist-r"], "yann.lecun.com"),
        (["run", "mnist-r", "--data", "nowhere"], "mnist is not in nowhere"),
        (["run", "--set", "pool.name=folder", "--set", "pool.path=void"], "pool.path"),
        (["run", "--device", "warp"], "--device cpu"),
        (["run", "--device", "meta"], "--device cpu"),
        (["run", "--set", "stream=5", "--set", "stream.tasks=2"], "'stream' must be a table"),
        (["run", "--set", f"stream.tasks={'9' * 5000}"], "stream.tasks"),
        (["run", "--set", "stream.tasks=2\nseeds=[7]"], "cannot be printed"),
        (["run", "--set", "stream.tasks=true"], "stream.tasks = True is not valid"),
        (["run", *small("learner.name=finetune", "learner.lr=1e20")], "not finite at step"),
        (["verify", "nothing.npz"], "nothing.npz does not exist"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GRADCAST_DATA", raising=False)
    monkeypatch.setattr(sys, "argv", ["gradcast", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr()
    assert ended.value.code == 2
    assert message in said.err
    assert len([line for line in said.err.splitlines() if line.startswith("error: ")]) == 1
    assert said.out == ""


def test_the_process_itself_ends_without_a_traceback(tmp_path: Path) -> None:
    found = cli("run", "digitz", cwd=tmp_path)
    assert found.returncode == 2
    assert found.stderr.splitlines() == ["error: there is no preset or file 'digitz'; did you mean 'digits'?"]


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    found = cli("run", *small(), "--out", "file/runs", cwd=tmp_path)
    assert found.returncode == 2
    assert "file/runs" in found.stderr
    assert "Traceback" not in found.stderr


def test_verify_exits_1_on_a_difference(tmp_path: Path) -> None:
    from tests.test_verify import CASES, trace

    options = {"tasks": 2, "steps": 3, "classes_per_task": 4, "masked": False, "alpha": 0.4, "loss_scale": 7.0}
    trace(tmp_path / "good.npz", **CASES[0], **options)  # type: ignore[arg-type]
    good = cli("verify", "good.npz", cwd=tmp_path)
    assert good.returncode == 0
    mixed = cli("verify", "nothing.npz", "good.npz", cwd=tmp_path)
    assert mixed.returncode == 2
    assert "good.npz: 6 steps" in mixed.stdout
    assert good.stdout.startswith("good.npz: 6 steps, largest relative difference ")
    assert good.stdout.endswith("agrees\n")
    import numpy as np

    arrays = dict(np.load(tmp_path / "good.npz"))
    arrays["params/005"] = arrays["params/005"] * 1.01
    np.savez(tmp_path / "bad.npz", **arrays)
    bad = cli("verify", "good.npz", "bad.npz", cwd=tmp_path)
    assert bad.returncode == 1
    assert len(bad.stdout.splitlines()) == 2
    assert "DIFFERS" in bad.stdout.splitlines()[1]


def test_presets_and_version(tmp_path: Path) -> None:
    listed = cli("presets", cwd=tmp_path).stdout
    assert all(name in listed for name in ("digits", "mnist-r", "mnist-p"))
    assert cli("--version", cwd=tmp_path).stdout == f"gradcast {gradcast.__version__}\n"


@pytest.mark.parametrize("replicas", ["", "two", "1,0"])
def test_bench_refuses_what_is_no_list_of_numbers(replicas: str, tmp_path: Path) -> None:
    found = cli("bench", "--replicas", replicas, cwd=tmp_path)
    assert found.returncode == 2
    assert "as in --replicas 1,4,16" in found.stderr


def test_verify_takes_a_device_and_says_when_there_is_none(tmp_path: Path) -> None:
    found = cli("verify", "x.npz", "--device", "nonsense", cwd=tmp_path)
    assert found.returncode == 2
    assert "x.npz" in found.stderr
