from pathlib import Path

import pytest
from safetensors.torch import load_file

from gradcast.networks import SlimResNet18
from tests.cli.process import ALONE, called, cli
from tests.data.images import fill

SMALL = ("--steps", "3", "--batch", "4", "--size", "8", "--device", "cpu", "--set", "model.width=2")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADCAST_CACHE", str(tmp_path / "cache"))


def test_it_says_where_the_weights_are_and_how_to_use_them(tmp_path: Path) -> None:
    fill(tmp_path / "photos", 6)
    found = called("pretrain", "--pool", "photos", *SMALL, *ALONE, cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    first, *lines = found.stdout.splitlines()
    assert first.startswith("The weights of slim-resnet18 are in weights.safetensors: loss ")
    assert " at step 1, " in first
    assert first.endswith(" at step 3. To use them:")
    assert lines == [
        "  gradcast run ... --set model.name=slim-resnet18 --set model.weights=weights.safetensors",
        "  from safetensors.torch import load_file",
        '  network.load_state_dict(load_file("weights.safetensors"), strict=False)',
    ]
    network = SlimResNet18(2, 5)
    left = network.load_state_dict(load_file(tmp_path / "weights.safetensors"), strict=False)
    assert (left.missing_keys, left.unexpected_keys) == (["linear.weight", "linear.bias"], [])
    assert "3/3" in found.stderr
    again = called("pretrain", "--pool", "photos", *SMALL, *ALONE, cwd=tmp_path)
    assert again.stdout == found.stdout
    assert "weights.safetensors: finished earlier" in again.stderr


def test_a_run_takes_the_file(tmp_path: Path) -> None:
    called("pretrain", "--pool", "patches", *SMALL, *ALONE, "--out", "own.safetensors", cwd=tmp_path)
    settings = [
        *("model.name=slim-resnet18", "model.width=2", "model.weights=own.safetensors", "learner.name=finetune"),
        *("stream.colour=rgb", "stream.size=8", "stream.tasks=1", "stream.samples=20", "seeds=[0]"),
    ]
    found = called("run", "digits", *ALONE, *(part for own in settings for part in ("--set", own)), cwd=tmp_path)
    assert found.returncode == 0, found.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--pool", "nowhere"], "there is nothing at nowhere"),
        (["--pool", "."], "holds no image files; choose a folder of images"),
        (["--pool", "patches", "--model", "slim-resnet"], "did you mean 'slim-resnet18'?"),
        (["--pool", "patches", "--model", "nets:Net"], "--model = 'nets:Net' cannot be imported"),
        (["--pool", "patches", "--batch", "5000"], "lower --batch"),
        (["--pool", "patches", "--out", "no/w.safetensors"], "no/w.safetensors cannot be written"),
        (["--pool", "patches", "--set", "stream.size=3"], "use --size"),
        (["--pool", "patches", "--device", "warp"], "--device cpu"),
        (["--pool", "coco"], "coco is not in data"),
        (["--pool", "patches", "--resume"], "there is no unfinished head start beside weights.safetensors"),
        (["--pool", "patches", "--resume", "--fresh"], "leave one out"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(tmp_path: Path, arguments: list[str], message: str) -> None:
    found = called("pretrain", *arguments, "--steps", "2", *ALONE, cwd=tmp_path)
    assert found.returncode == 2
    assert message in found.stderr
    assert len([line for line in found.stderr.splitlines() if line.startswith("error: ")]) == 1
    assert found.stdout == ""
    assert [path.name for path in tmp_path.iterdir() if path.name != "cache"] == []


def test_the_help_fits_eighty_columns(tmp_path: Path) -> None:
    found = called("pretrain", "--help", cwd=tmp_path)
    assert found.returncode == 0
    assert max(len(line) for line in found.stdout.splitlines()) <= 80
    assert "…" not in found.stdout


def test_one_thread_has_the_same_bytes_every_time(tmp_path: Path) -> None:
    for name in ("a", "b"):
        out = ["--out", f"{name}.safetensors", "--checkpoint-steps", "2", "--checkpoint-minutes", "0"]
        found = cli("pretrain", "--pool", "patches", *SMALL, "--deterministic", *out, cwd=tmp_path)
        assert found.returncode == 0, found.stderr
        for entry in (tmp_path / "cache").glob("head-start-*"):
            entry.rename(tmp_path / f"aside-{name}")
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()
