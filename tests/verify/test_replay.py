"""Replays trajectories: the reference's, and ones made here by an independent spelling of the whole method."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import quadprog
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from gradcast.errors import GradcastError
from gradcast.verify.replay import replay


@pytest.mark.golden
@pytest.mark.parametrize("name", ["gem_mlp", "dcl_mlp", "gem_predicted_mlp", "ewc_mlp", "ewc_mlp_large"])
def test_reference_trajectories(golden: Path, name: str) -> None:
    found = replay(golden / f"{name}.npz")
    assert found.steps == 28
    assert found.difference <= 1e-9
    assert found.agrees


@pytest.mark.golden
def test_reference_trajectory_of_a_network_with_batchnorm_and_masked_heads(golden: Path) -> None:
    """Running statistics included: they show the order of all forward passes."""
    found = replay(golden / "gem_predicted_resnet.npz")
    assert found.steps == 12
    assert found.tolerance == 1e-6
    assert found.difference <= 1e-9


class Reference:
    """The published step in the plainest words: loops, lists, a library's solver. Nothing of the package is used."""

    def __init__(self, config: dict[str, Any], sizes: list[int], hidden: list[int], seed: int) -> None:
        self.config = config
        generator = torch.Generator().manual_seed(seed)
        draw = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64) / shape[-1] ** 0.5  # noqa: E731
        self.params: list[Tensor] = []
        for fan_in, fan_out in pairwise(sizes):
            self.params += [draw(fan_out, fan_in).requires_grad_(), draw(fan_out).requires_grad_()]
        m = config["classes_per_task"]
        widths = [m, *hidden, m]
        self.h = [draw(b, a).requires_grad_() for a, b in pairwise(widths)]
        self.memory: dict[int, list[tuple[Tensor, Tensor] | None]] = {}
        self.pointer, self.reference, self.count, self.task = 0, None, 0, None

    def logits(self, x: Tensor, task: int) -> Tensor:
        for i in range(0, len(self.params), 2):
            x = x @ self.params[i].T + self.params[i + 1]
            x = torch.relu(x) if i + 2 < len(self.params) else x
        m = self.config["classes_per_task"]
        return x[:, task * m : task * m + m] if "masked" in self.config["network"] else x

    def predictor(self, z: Tensor) -> Tensor:
        for i, weight in enumerate(self.h):
            z = z @ weight.T
            z = torch.relu(z) if i + 1 < len(self.h) else z
        return z / z.norm(dim=1, keepdim=True)

    def gradient(self, loss: Tensor) -> np.ndarray:
        return np.concatenate([g.numpy().ravel() for g in torch.autograd.grad(loss, self.params, retain_graph=True)])

    def weights(self) -> np.ndarray:
        return np.concatenate([p.detach().numpy().ravel() for p in self.params])

    def step(self, x: Tensor, y: Tensor, task: int, unlabelled: Tensor | None) -> int:
        c = self.config
        if c["model"] == "dcl":
            if task != self.task:
                self.task, self.count, self.reference = task, 0, None
            if c["dcl_interval"] > 0 and self.count % c["dcl_interval"] == 0:
                self.reference = None
            self.count += 1
        rows = self.memory.setdefault(task, [None] * c["memories"])
        kept = min(len(x), c["memories"] - self.pointer)
        for i in range(kept):
            rows[self.pointer + i] = (x[i], y[i])
        self.pointer = (self.pointer + kept) % c["memories"]
        past = []
        for old, rows in self.memory.items():
            if old != task:
                items = [item for item in rows if item is not None]
                old_x, old_y = torch.stack([i[0] for i in items]), torch.stack([i[1] for i in items])
                past.append(self.gradient(cross_entropy(self.logits(old_x, old), old_y)))
        if past and self.reference is not None:
            d = self.weights() - self.reference
            past += [d] if d.sum() != 0 else []
        z = self.logits(x, task)
        loss = cross_entropy(z, y)
        g = self.gradient(loss)
        if c["predicted"]:
            (dz,) = torch.autograd.grad(loss, z)
            tau = dz.norm(dim=1).mean()
            z = z.detach()
            fit = c["loss_scale"] * cross_entropy(z - c["lr"] * c["alpha"] * tau * self.predictor(z), y)
            for weight, grad in zip(self.h, torch.autograd.grad(fit, self.h), strict=True):
                weight.data -= c["lr"] * grad
            if unlabelled is not None:
                z_u = self.logits(unlabelled, task)
                up = c["alpha"] * tau * self.predictor(z_u).detach()
                g = g + np.concatenate([v.numpy().ravel() for v in torch.autograd.grad(z_u, self.params, up)])
        violated = any(p @ g < 0 for p in past)
        if violated:
            rows_ = np.stack(past)
            gram = rows_ @ rows_.T
            low = np.full(len(past), c["margin"])
            g = g + quadprog.solve_qp((gram + gram.T) / 2, -rows_ @ g, np.eye(len(past)), low)[0] @ rows_
        start = 0
        for p in self.params:
            p.data -= c["lr"] * torch.from_numpy(g[start : start + p.numel()].reshape(p.shape))
            start += p.numel()
        if c["model"] == "dcl" and self.reference is None:
            self.reference = self.weights()
        return int(violated)


def trace(
    path: Path, *, sizes: list[int], hidden: list[int], tasks: int, steps: int, batch: int, masked: bool, **config: Any
) -> Path:
    """A file of the reference's format."""
    heads = "task-masked heads" if masked else "one shared head"
    full = {
        "network": f"mlp {'-'.join(map(str, sizes))}, {heads}",
        "tasks": tasks,
        "lr": 0.05,
        "dcl_interval": 3,
        **config,
    }
    reference = Reference(full, sizes, hidden, seed=len(str(full)))
    arrays: dict[str, Any] = {"config": json.dumps(full)}
    for i, p in enumerate(reference.params):
        arrays[f"init/{i:03d}/p{i}"] = p.detach().numpy().copy()
    for i, w in enumerate(reference.h):
        arrays[f"learner_init/{i}"] = w.detach().numpy().copy()
    generator = torch.Generator().manual_seed(1)
    projected = []
    for n in range(tasks * steps):
        task = n // steps
        x = torch.randn(batch, sizes[0], generator=generator, dtype=torch.float64) + task
        y = torch.randint(full["classes_per_task"], (batch,), generator=generator)
        u = (
            torch.randn(batch + 2, sizes[0], generator=generator, dtype=torch.float64)
            if config["predicted"] and n % 2
            else None
        )
        arrays |= {f"x/{n:03d}": x.numpy(), f"y/{n:03d}": y.numpy(), f"task/{n:03d}": np.int64(task)}
        if u is not None:
            arrays[f"unlabelled/{n:03d}"] = u.numpy()
        projected.append(reference.step(x, y, task, u))
        arrays[f"params/{n:03d}"] = reference.weights()
        arrays[f"learner/{n:03d}"] = np.concatenate([w.detach().numpy().ravel() for w in reference.h])
    arrays["projected"] = np.array(projected)
    np.savez(path, **arrays)
    return path


CASES: list[dict[str, Any]] = [
    {"model": "gem", "predicted": False, "sizes": [7, 6, 4], "hidden": [5], "batch": 3, "memories": 11, "margin": 0.0},
    {
        "model": "gem",
        "predicted": True,
        "sizes": [5, 8, 6, 4],
        "hidden": [9, 4],
        "batch": 4,
        "memories": 10,
        "margin": 0.7,
    },
    {"model": "gem", "predicted": True, "sizes": [5, 9], "hidden": [], "batch": 2, "memories": 30, "margin": 0.3},
    {"model": "dcl", "predicted": False, "sizes": [7, 6, 4], "hidden": [5], "batch": 6, "memories": 8, "margin": 0.5},
    {
        "model": "dcl",
        "predicted": True,
        "sizes": [6, 5, 12],
        "hidden": [8, 8, 8],
        "batch": 5,
        "memories": 16,
        "margin": 0.5,
    },
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c['model']}-{c['predicted']}-{len(c['sizes'])}")
def test_any_file_of_the_format(tmp_path: Path, case: dict[str, Any]) -> None:
    masked = case["sizes"][-1] > 4
    options = {"tasks": 3, "steps": 8, "classes_per_task": case["sizes"][-1] // (3 if masked else 1), "masked": masked}
    path = trace(tmp_path / "trace.npz", **options, **case, alpha=0.4, loss_scale=7.0)
    found = replay(path)
    assert found.steps == 24
    assert found.difference <= 1e-9
    separate = masked and len(case["sizes"]) == 2  # tasks share no weight then and never disagree
    assert (np.load(path)["projected"].sum() > 3) != separate


@pytest.fixture
def good(tmp_path: Path) -> dict[str, np.ndarray]:
    path = trace(
        tmp_path / "t.npz", **CASES[1], tasks=2, steps=3, classes_per_task=4, masked=False, alpha=0.4, loss_scale=7.0
    )
    return dict(np.load(path))


def test_a_wrong_weight_is_found_and_located(tmp_path: Path, good: dict[str, np.ndarray]) -> None:
    good["params/004"] = good["params/004"] + 1e-6
    np.savez(tmp_path / "bad.npz", **good)
    found = replay(tmp_path / "bad.npz")
    assert not found.agrees
    assert found.where == "params after step 4"


def test_a_wrong_projection_is_found(tmp_path: Path, good: dict[str, np.ndarray]) -> None:
    good["projected"][2] = 1 - good["projected"][2]
    np.savez(tmp_path / "bad.npz", **good)
    assert replay(tmp_path / "bad.npz").where == "projection in step 2"
    assert not replay(tmp_path / "bad.npz").agrees


def test_not_a_number_does_not_agree(tmp_path: Path, good: dict[str, np.ndarray]) -> None:
    good["params/001"] = good["params/001"] * np.nan
    np.savez(tmp_path / "bad.npz", **good)
    assert not replay(tmp_path / "bad.npz").agrees


@pytest.mark.parametrize("missing", ["config", "y/001", "init/000/p0", "learner_init/1", "task/000"])
def test_incomplete_files_are_explained(tmp_path: Path, good: dict[str, np.ndarray], missing: str) -> None:
    del good[missing]
    np.savez(tmp_path / "bad.npz", **good)
    with pytest.raises(GradcastError, match=r"bad\.npz"):
        replay(tmp_path / "bad.npz")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "lwf"}, "wrong at 'model'"),
        ({"network": "transformer"}, "not one that can be replayed"),
        ({"tasks": 0}, "wrong at 'tasks'"),
        ({"classes_per_task": 2}, "does not fit together"),
    ],
)
def test_bad_configurations(tmp_path: Path, good: dict[str, np.ndarray], change: dict[str, Any], message: str) -> None:
    good["config"] = np.array(json.dumps(json.loads(str(good["config"])) | change))
    np.savez(tmp_path / "bad.npz", **good)
    with pytest.raises(GradcastError, match=message):
        replay(tmp_path / "bad.npz")


def test_files_that_are_no_archive(tmp_path: Path, good: dict[str, np.ndarray]) -> None:
    np.savez(tmp_path / "good.npz", **good)
    content = (tmp_path / "good.npz").read_bytes()
    (tmp_path / "text.npz").write_text("hello")
    (tmp_path / "cut.npz").write_bytes(content[: len(content) // 2])
    for name, message in (("text.npz", "not an .npz"), ("cut.npz", "cut off"), ("none.npz", "does not exist")):
        with pytest.raises(GradcastError, match=message):
            replay(tmp_path / name)
