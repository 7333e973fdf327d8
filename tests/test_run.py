import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from gradcast.data.own import own_data
from gradcast.errors import GradcastError
from gradcast.result import RowResult
from gradcast.run import run
from gradcast.spec import Spec
from gradcast.store import RunDirectory
from tests.runs import finished, small


def files(directory: RunDirectory) -> dict[str, bytes]:
    """Everything but times, by name."""
    found = {}
    for path in sorted(directory.path.rglob("*")):
        if path.is_file():
            content = path.read_bytes()
            if path.name == "env.json":
                content = json.dumps({k: v for k, v in json.loads(content).items() if k != "time"}).encode()
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
    assert [result.paired.verdict for result in results[1:] if result.paired] == ["identical", "identical"]


@pytest.mark.parametrize("learner", ["finetune", "gem", "dcl"])
def test_seeds_together_equal_seeds_one_by_one(tmp_path: Path, learner: str) -> None:
    options = (f"learner.name={learner}", "dtype=float64", "signal.loss_scale=1000.0")
    together, _ = cpu(small(*options), tmp_path / "together")
    alone, _ = cpu(small(*options, "seeds=[2]"), tmp_path / "alone")
    for row in ("base", "predicted", "random"):
        ours, own = weights(together, row, 2), weights(alone, row, 2)
        for name in own:
            torch.testing.assert_close(ours[name], own[name], rtol=1e-6, atol=1e-9)


def test_a_finished_row_is_not_repeated_and_an_unfinished_one_is(tmp_path: Path) -> None:
    directory, first = cpu(small(), tmp_path)
    marker = directory.path / "base" / "env.json"
    (directory.path / "random" / "env.json").unlink()
    (directory.seed("random", 0) / "metrics.jsonl").write_text("half a line")
    before = marker.stat().st_mtime_ns
    _, second = cpu(small(), tmp_path)
    assert marker.stat().st_mtime_ns == before
    assert [r.acc() for r in first] == [r.acc() for r in second]


def test_a_diverging_run_keeps_what_it_wrote(tmp_path: Path) -> None:
    spec = small("learner.lr=1e20", "learner.name=finetune")
    with pytest.raises(GradcastError, match=r"not finite at step \d+ \(task 0, seed 0\)"):
        cpu(spec, tmp_path)
    (directory,) = (RunDirectory(path) for path in tmp_path.iterdir())
    assert directory.accuracy("base", 0).shape == (1, 3)
    assert len(directory.metrics("base", 0)) >= 1
    assert not directory.finished("base")


def test_bad_data_leaves_no_directory(tmp_path: Path) -> None:
    with pytest.raises(GradcastError, match="mnist"):
        run(small("stream.source=mnist"), out=tmp_path, data=tmp_path / "nothing", device="cpu")
    with pytest.raises(GradcastError, match="there is nothing at nowhere"):
        run(small("pool.name=folder", "pool.path=nowhere"), out=tmp_path, device="cpu")
    assert list(tmp_path.iterdir()) == []


def test_batchnorm_and_masked_heads_run(tmp_path: Path) -> None:
    spec = small(
        "model.norm=batch", "stream.scenario=split", "stream.tasks=3", "learner.name=dcl", "policy.batchnorm=separate"
    )
    directory, results = cpu(spec, tmp_path)
    assert len(results) == 3
    assert weights(directory, "base", 0)["model.layers.3.weight"].shape == (9, 12)


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


@pytest.mark.data
def test_mnist_rotated_on_the_real_files(data: Path, tmp_path: Path) -> None:
    settings = ["stream.source=mnist", "stream.tasks=3", "stream.samples=300", "learner.memory=64", "seeds=[0]"]
    _, results = run(small(*settings), out=tmp_path, data=data, device="cpu")
    assert results[0].acc()[0] > 50
