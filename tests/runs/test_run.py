import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from gradcast.data.own_images import own_data
from gradcast.errors import GradcastError
from gradcast.results.report import verdicts
from gradcast.results.result import RowResult
from gradcast.runs import row_training
from gradcast.runs.directory import RunDirectory
from gradcast.runs.run import complete, run
from gradcast.specs.spec import Row, Spec
from gradcast.specs.text import load
from tests.data.images import fill
from tests.trained_runs import SMALL, finished, small


def files(directory: RunDirectory) -> dict[str, bytes]:
    """Everything but times, by name."""
    found = {}
    for path in sorted(directory.path.rglob("*")):
        if path.is_file():
            content = path.read_bytes()
            if path.name == "env.json":
                content = json.dumps({k: v for k, v in json.loads(content).items() if k != "time"}).encode()
            if path.name == "manifest.json":  # has a digest of that
                content = json.dumps(
                    {k: v for k, v in json.loads(content)["files"].items() if k != "env.json"}
                ).encode()
            found[str(path.relative_to(directory.path))] = content
    return found


def weights(directory: RunDirectory, row: str, seed: int) -> dict[str, torch.Tensor]:
    return load_file(directory.seed(row, seed) / "weights.safetensors")


def cpu(spec: Spec, out: Path) -> tuple[RunDirectory, list[RowResult]]:
    return run(spec, out=out, device="cpu")


def test_a_run_leaves_text_and_safetensors_only() -> None:
    directory, results = finished()
    names = set(files(directory))
    assert {"spec.toml", "result.json", "report.md", "accuracy-matrix.png"} <= names
    assert {
        "base/env.json",
        "base/stream.json",
        "base/seed-0/metrics.jsonl",
        "base/seed-2/weights.safetensors",
    } <= names
    assert {Path(name).suffix for name in names} == {".toml", ".json", ".jsonl", ".csv", ".md", ".png", ".safetensors"}
    assert [result.name for result in results] == ["base", "predicted", "random"]


def test_the_same_seeds_give_the_same_files(tmp_path: Path) -> None:
    again, _ = cpu(small(), tmp_path)
    assert files(again) == files(finished()[0])


@pytest.mark.parametrize("setting", ["policy.p=0.0", "signal.alpha=0.0"])
def test_without_pseudo_gradients_the_weights_are_the_bases_bit_for_bit(tmp_path: Path, setting: str) -> None:
    directory, results = cpu(small(setting), tmp_path)
    for seed in range(3):
        base = weights(directory, "base", seed)
        for row in ("predicted", "random"):
            other = weights(directory, row, seed)
            assert all(torch.equal(base[name], other[name]) for name in base)
    assert [result.paired.verdict for result in results[1:] if result.paired] == ["identical ACC on every seed"] * 2


@pytest.mark.parametrize("learner", ["finetune", "gem", "dcl"])
def test_seeds_together_equal_seeds_one_by_one(tmp_path: Path, learner: str) -> None:
    options = (f"learner.name={learner}", "dtype=float64", "signal.loss_scale=1000.0")
    together, _ = cpu(small(*options), tmp_path / "together")
    alone, _ = cpu(small(*options, "seeds=[2]"), tmp_path / "alone")
    for row in ("base", "predicted", "random"):
        ours, own = weights(together, row, 2), weights(alone, row, 2)
        for name in own:
            torch.testing.assert_close(ours[name], own[name], rtol=1e-6, atol=1e-9)


def test_seeds_that_do_not_fit_together_train_in_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    together, _ = cpu(small(), tmp_path / "together")
    monkeypatch.setattr(
        sys.modules["gradcast.runs.row_training"],
        "together",
        lambda setting, stream, seeds, place: [seeds[:1], seeds[1:]],
    )
    apart, results = cpu(small(), tmp_path / "apart")
    assert len(results) == 3
    assert json.loads((apart.path / "base" / "env.json").read_text())["time"]["seeds_at_once"] == 1
    for seed in range(3):
        alone = weights(apart, "predicted", seed)
        for name, value in weights(together, "predicted", seed).items():
            torch.testing.assert_close(alone[name], value, rtol=1e-4, atol=1e-5)
        assert len(apart.metrics("predicted", seed)) == len(together.metrics("predicted", seed))


def test_a_residual_network_runs_and_small_images_are_refused(tmp_path: Path) -> None:
    options = ("model.name=slim-resnet18", "model.width=2", "stream.scenario=split", "stream.tasks=2", "seeds=[0, 1]")
    spec = load("digits", [setting for setting in SMALL if "hidden" not in setting] + list(options))
    directory, results = cpu(spec, tmp_path)
    assert {result.label for result in results} > {"GEM"}
    assert "model.layer4.1.bn2.running_var" in weights(directory, "base", 0)
    with pytest.raises(GradcastError, match=r"8 x 8 pixels or more, not 4 x 4.*stream\.size"):
        cpu(load("digits", [*options, "stream.samples=40", "stream.size=4"]), tmp_path)


def test_a_finished_row_is_not_repeated_and_an_unfinished_one_is(tmp_path: Path) -> None:
    directory, first = cpu(small(), tmp_path)
    marker = directory.path / "base" / "env.json"
    (directory.path / "random" / "env.json").unlink()
    (directory.path / "random" / "manifest.json").unlink()
    (directory.seed("random", 0) / "metrics.jsonl").unlink()
    (directory.seed("random", 0) / "metrics.jsonl").write_text("half a line")
    before = marker.stat().st_mtime_ns
    _, second = run(small(), out=tmp_path, device="cpu", reuse=False)
    assert marker.stat().st_mtime_ns == before
    assert [r.acc() for r in first] == [r.acc() for r in second]


def test_a_diverging_run_keeps_what_it_wrote(tmp_path: Path) -> None:
    spec = small("learner.lr=1e20", "learner.name=finetune")
    with pytest.raises(GradcastError, match=r"not finite at step \d+ \(task 0, seed 0\)"):
        cpu(spec, tmp_path)
    (directory,) = (RunDirectory(path) for path in tmp_path.iterdir() if path.is_dir())
    assert len((directory.seed("base", 0) / "accuracy.csv").read_text().splitlines()) == 2  # heading, before training
    assert len(directory.metrics("base", 0)) >= 1
    assert not directory.finished("base")


def test_finished_rows_are_reported_although_a_later_one_diverged(tmp_path: Path) -> None:
    spec = small("row.random.learner.name=finetune", "row.random.learner.lr=1e20")
    with pytest.raises(GradcastError, match="not finite"):
        cpu(spec, tmp_path)
    (directory,) = (RunDirectory(path.parent) for path in tmp_path.glob("*/spec.toml"))
    assert [row["name"] for row in json.loads((directory.path / "result.json").read_text())] == ["base", "predicted"]
    assert (directory.path / "report.md").is_file()


def test_a_seed_that_drew_no_unlabelled_batch_is_no_accident(tmp_path: Path) -> None:
    _, results = cpu(small("stream.samples=10", "policy.p=0.1", "seeds=[0, 1, 2, 3, 4, 5]"), tmp_path)
    drawn = results[1].diagnostics["unlabelled_images"]
    assert 0 < drawn.mean < 4 * 3
    assert results[1].diagnostics["pseudo_ratio_median"].seeds < 6


def test_other_images_in_the_pool_are_another_run(tmp_path: Path) -> None:
    fill(tmp_path / "photos", 5)
    options = ("pool.name=folder", f"pool.path={tmp_path / 'photos'}")
    first, _ = cpu(small(*options), tmp_path)
    again, _ = cpu(small(*options), tmp_path)
    fill(tmp_path / "photos", 1, start=77)
    other, _ = cpu(small(*options), tmp_path)
    assert first.path == again.path != other.path


def test_rows_with_different_streams_are_not_compared(tmp_path: Path) -> None:
    _, results = cpu(small("row.random.stream.tasks=2"), tmp_path)
    assert results[1].paired is not None
    assert results[2].paired is None
    assert verdicts(results)[1].endswith("not compared, their streams differ")


@pytest.mark.parametrize("setting", ["stream.samples=41", "policy.batch=1", "learner.memory=1"])
def test_batchnorm_refuses_passes_of_one_image(tmp_path: Path, setting: str) -> None:
    with pytest.raises(GradcastError, match="BatchNorm cannot normalise"):
        cpu(small("model.norm=batch", setting), tmp_path)


@pytest.mark.parametrize("setting", ["learner.memory=1000000000000", "model.hidden=[1000000000000]"])
def test_sizes_beyond_the_machine_are_explained(tmp_path: Path, setting: str) -> None:
    with pytest.raises(GradcastError, match="not enough memory for 3 seeds"):
        cpu(small(setting), tmp_path)


def test_labels_of_any_kind_survive_everywhere(tmp_path: Path) -> None:
    label = "a|b [/x] $5 \\foo $x [bold]"
    spec = small().model_copy(update={"rows": [row.model_copy(update={"label": label}) for row in small().rows]})
    directory, results = cpu(spec, tmp_path)
    assert results[0].label == label
    assert "a\\|b \\[/x\\]" in (directory.path / "report.md").read_text()


def test_bad_data_leaves_no_directory(tmp_path: Path) -> None:
    with pytest.raises(GradcastError, match="mnist"):
        run(small("stream.source=mnist"), out=tmp_path, data=tmp_path / "nothing", device="cpu")
    with pytest.raises(GradcastError, match="there is nothing at nowhere"):
        run(small("pool.name=folder", "pool.path=nowhere"), out=tmp_path, device="cpu")
    assert list(tmp_path.iterdir()) == []


def test_batchnorm_and_masked_heads_run(tmp_path: Path) -> None:
    spec = small(
        "model.norm=batch", "stream.scenario=split", "stream.tasks=5", "learner.name=dcl", "policy.batchnorm=separate"
    )
    directory, results = cpu(spec, tmp_path)
    assert len(results) == 3
    assert weights(directory, "base", 0)["model.layers.3.weight"].shape == (10, 12)


@pytest.mark.parametrize("shape", [(24, 9, 11), (24, 10, 7, 3), (24, 3, 5, 5)])
def test_own_data_of_any_size_with_an_own_pool(tmp_path: Path, shape: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randint(256, shape, generator=generator, dtype=torch.uint8), torch.arange(24) % 4 + 7
    settings = ["stream.scenario=split", "stream.tasks=2", "stream.samples=6", "stream.batch=3", "policy.p=1.0"]
    pool = torch.rand(20, 16, 16, 3, generator=generator)
    directory, results = run(small(*settings), out=tmp_path, source=own_data(x, y, x, y), pool=pool, device="cpu")
    assert len(results) == 3
    assert results[1].diagnostics["unlabelled_images"].mean > 0
    other, _ = run(small(*settings), out=tmp_path, source=own_data(x, y, x, y.flip(0)), pool=pool, device="cpu")
    assert other.path != directory.path  # another content is another run
    with pytest.raises(GradcastError, match="needs images from the caller"):
        run(directory.spec, out=tmp_path, device="cpu")


def test_an_empty_pool_and_turned_rectangles_are_refused(tmp_path: Path) -> None:
    x, y = torch.zeros(24, 8, 12, dtype=torch.uint8), torch.arange(24) % 4
    source = own_data(x, y, x, y)
    with pytest.raises(GradcastError, match="the pool is empty"):
        run(small("stream.samples=all"), out=tmp_path, source=source, pool=torch.rand(0, 3, 8, 8), device="cpu")
    with pytest.raises(GradcastError, match="'rotate' needs square images"):
        run(small("stream.samples=all", 'stream.augment=["rotate"]'), out=str(tmp_path), source=source, device="cpu")


@pytest.mark.data
def test_mnist_rotated_on_the_real_files(data: Path, tmp_path: Path) -> None:
    settings = ["stream.source=mnist", "stream.tasks=3", "stream.samples=300", "learner.memory=64", "seeds=[0]"]
    _, results = run(small(*settings), out=tmp_path, data=data, device="cpu")
    assert results[0].acc()[0] > 50


OWN = """
from torch import nn

class Net(nn.Sequential):
    def __init__(self, outputs, shape, scale=1.0):
        super().__init__(nn.Flatten(), nn.Linear(shape[1] * shape[2], 12), nn.LayerNorm(12), nn.Linear(12, outputs))
        self.scale = scale

    def forward(self, x):
        y = super().forward(x) * self.scale
        return y

class Looking(Net):
    def forward(self, x):
        y = super().forward(x)
        return y if y.sum() > 0 else y * 1.0
"""


def test_anybodys_network_trains_one_by_one_to_the_same_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "anybodys.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    own = ["model.name=python", "model.arguments={scale = 0.5}", "dtype=float64"]
    found = [cpu(small(*own, "model.path=anybodys:Net"), tmp_path)[0]]
    with pytest.warns(UserWarning, match="Looking cannot be vmapped"):
        found.append(cpu(small(*own, "model.path=anybodys:Looking"), tmp_path)[0])
    vmapped, alone = (weights(directory, "predicted", 2) for directory in found)
    torch.testing.assert_close(vmapped, alone, rtol=1e-9, atol=1e-12)
    assert found[0].spec.rows[0].setting.model.arguments == {"scale": 0.5}  # type: ignore[union-attr]


def test_dropout_does_not_depend_on_how_seeds_are_grouped(tmp_path: Path) -> None:
    options = [
        "stream.size=12",
        "model.name=alexnet-like",
        "model.latent=8",
        "model.widths=[12, 8, 8]",
        "dtype=float64",
    ]
    short = [*options, "stream.tasks=2", "stream.samples=20", "learner.memory=8"]
    spec = load("digits", [*(s for s in SMALL if not s.startswith("model")), *short, "seeds=[0, 1]"])
    together, _ = cpu(spec, tmp_path)
    alone, _ = cpu(spec.model_copy(update={"seeds": [1]}), tmp_path)
    first, second = weights(together, "predicted", 1), weights(alone, "predicted", 1)
    torch.testing.assert_close(first, second, rtol=1e-9, atol=1e-12)
    assert not torch.allclose(first["model.linear.weight"], weights(together, "predicted", 0)["model.linear.weight"])


def test_a_signal_that_never_acts_is_told(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=r"has 12 steps and policy.start is 12: no unlabelled image"):
        _, results = cpu(small("policy.start=12"), tmp_path)
    assert results[0].acc() == results[1].acc()


class Heard:
    """A tracker that remembers."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[str, int, str], list[int]] = {}

    def begin(self, directory: Path, settings: object) -> None: ...

    def scalars(self, row: str, seed: int, step: int, values: dict[str, float]) -> None:
        for name in values:
            self.numbers.setdefault((row, seed, name), []).append(step)

    def end(self) -> None: ...

    def where(self) -> str:
        return ""


def test_a_head_start_is_told_and_comes_to_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ahead = ("head_start.steps=4", "head_start.batch=4", "row.base.head_start.steps=0")
    heard, made = Heard(), []
    for name in ("one", "other"):  # nothing is shared by the two
        monkeypatch.setenv("GRADCAST_CACHE", str(tmp_path / name / "cache"))
        directory, _ = run(small(*ahead), out=tmp_path / name, device="cpu", trackers=[heard] if name == "one" else [])
        made.append(files(directory))
    assert made[0] == made[1]
    assert "predicted/seed-1/head_start.json" in made[0]
    assert "base/seed-1/head_start.json" not in made[0]
    told = json.loads(made[0]["predicted/seed-1/head_start.json"])
    assert [step for step, _ in told["loss"]] == [1, 2, 3, 4]
    assert heard.numbers["predicted", 2, "head_start/loss"] == [1, 2, 3, 4]
    assert ("base", 2, "head_start/loss") not in heard.numbers
    times = json.loads((directory.path / "predicted" / "env.json").read_text())["time"]["head_start"]
    assert len(times) == 3
    assert len(list((tmp_path / "other" / "cache").glob("head-start-*"))) == 3  # two rows, one head start a seed


def test_nothing_is_written_or_deleted_through_a_link(tmp_path: Path) -> None:
    """In a run directory that somebody else made: a lock, a row, a log, a picture."""
    directory, _ = cpu(small("seeds=[0]"), tmp_path / "out")
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "file").write_text("mine")
    places = (directory.path, directory.path / "base", directory.seed("base", 0) / "metrics.jsonl")
    lock = tmp_path / "out" / f".{directory.path.name}.lock"
    for place in (*places, directory.path / "accuracy-matrix.png", lock):
        shutil.move(place, tmp_path / "kept")
        place.symlink_to(mine if (tmp_path / "kept").is_dir() else mine / "file")
        with pytest.raises(GradcastError, match=rf"{re.escape(str(place))} is a symbolic link, and nothing is written"):
            cpu(small("seeds=[0]"), tmp_path / "out")
        assert [path.name for path in mine.iterdir()] == ["file"]
        assert (mine / "file").read_text() == "mine"
        place.unlink()
        shutil.move(tmp_path / "kept", place)
    cpu(small("seeds=[0]"), tmp_path / "out")


def test_a_row_that_is_deleted_while_others_train_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = row_training.train_row

    def deleting(spec: Spec, row: Row, directory: RunDirectory, *rest: Any) -> None:
        real(spec, row, directory, *rest)
        if row.name == "predicted":
            shutil.rmtree(directory.path / "base")

    monkeypatch.setattr(sys.modules["gradcast.runs.run"], "train_row", deleting)
    with pytest.raises(GradcastError, match=r"base was deleted while other rows were trained; the same command trains"):
        cpu(small("seeds=[0]"), tmp_path)


def test_damage_to_a_finished_row_is_named_by_the_next_run(tmp_path: Path) -> None:
    directory, _ = cpu(small("seeds=[0]"), tmp_path)
    weights = directory.seed("random", 0) / "weights.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    with pytest.raises(GradcastError, match=r"weights\.safetensors was changed after it was written .*delete .*random"):
        cpu(small("seeds=[0]"), tmp_path)


def test_what_a_killed_process_left_of_a_finished_row_is_tidied(tmp_path: Path) -> None:
    directory, _ = cpu(small("seeds=[0]"), tmp_path)
    before = files(directory)
    left = ("base/groups.json", "base/checkpoint-3.safetensors", "base/env.json.77.tmp", "result.json.77.tmp")
    for name in left:
        (directory.path / name).touch()
    complete(directory)
    assert files(directory) == before
    (directory.path / "result.json").unlink()
    complete(directory)
    assert files(directory) == before
