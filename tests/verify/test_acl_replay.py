"""Replays the reference's trajectories of adversarial continual learning; wrong numbers and files are found."""

import json
from pathlib import Path

import numpy as np
import pytest
from torch import Tensor

from gradcast.errors import GradcastError
from gradcast.verify.replay import replay
from gradcast.verify.trace import Worst

FILES = [
    ("acl", 36),
    ("acl_predicted", 36),
    ("acl_memory", 24),
    ("acl_reset", 45),
    ("acl_mlp", 27),
    ("acl_predicted_mlp", 24),
]


@pytest.mark.golden
@pytest.mark.parametrize(("name", "steps"), FILES)
def test_reference_trajectories(golden: Path, name: str, steps: int) -> None:
    found = replay(golden / f"{name}.npz")
    assert found.steps == steps
    assert found.difference <= 1e-9
    assert found.agrees


@pytest.mark.golden
def test_idle_modules_that_decay_are_refused_in_one_sentence(golden: Path) -> None:
    with pytest.raises(GradcastError, match=r"acl_idle_decay\.npz cannot be replayed: .* \(idle_gradients = 'zero'\)"):
        replay(golden / "acl_idle_decay.npz")


@pytest.fixture(scope="module")
def recorded(golden: Path) -> dict[str, np.ndarray]:
    """A run with unlabelled images, up to the end of its first task."""
    arrays = dict(np.load(golden / "acl_predicted.npz"))
    config = json.loads(str(arrays["config"])) | {"tasks": 1}
    short = {key: value[:12] if key.startswith("steps/") else value for key, value in arrays.items()}
    return short | {"config": np.array(json.dumps(config))}


WRONG = {
    "params/007": "params after step 7",
    "discriminator/003": "discriminator after step 3",
    "learner/011": "learner after step 11",
    "logits/002": "logits in step 2",
    "losses/001": "fitness in step 1",
    "discriminator_losses/004": "discriminator's loss in step 4",
    "steps/e_lr": "e_lr in step 5",
    "steps/d_lr": "d_lr in step 9",
    "steps/new_theta_optimizer": "new_theta_optimizer in step 0",
    "train_eval/0": "adversarial in train evaluation of epoch 2, task 0",
    "valid_eval/0": "loss in validation evaluation of epoch 1, task 0",
    "epoch_loss/0": "loss of epoch 0, task 0",
    "after_task/0": "params after task 0",
    "after_task_discriminator/0": "discriminator after task 0",
    "test/0": "classification in test of task 0 after task 0",
}


@pytest.mark.golden
def test_all_that_is_recorded_is_compared_and_located(
    tmp_path: Path, recorded: dict[str, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything that our run does not read is a little wrong: each such place must show it."""
    differing: list[str] = []

    def add(self: Worst, ours: Tensor, recorded: np.ndarray | None, where: str) -> None:
        alone = Worst()
        real(alone, ours, recorded, where)
        if alone.difference > 1e-9:
            assert alone.difference == pytest.approx(1e-3, rel=0.01)
            differing.append(where)
        real(self, ours, recorded, where)

    real = Worst.add
    monkeypatch.setattr(Worst, "add", add)
    np.savez(tmp_path / "bad.npz", **recorded | {key: recorded[key] * 1.001 for key in WRONG})
    assert not replay(tmp_path / "bad.npz").agrees
    assert set(WRONG.values()) <= set(differing)


@pytest.mark.golden
def test_a_run_that_takes_another_course_differs(tmp_path: Path, recorded: dict[str, np.ndarray]) -> None:
    """Fewer epochs than recorded, and one more."""
    for epochs, message in ((1, "12 batches, ours ends after 4"), (4, "an epoch 3 of task 0")):
        config = json.loads(str(recorded["config"])) | {"epochs": epochs}
        np.savez(tmp_path / "bad.npz", **recorded | {"config": np.array(json.dumps(config))})
        found = replay(tmp_path / "bad.npz")
        assert not found.agrees
        assert message in found.where


@pytest.mark.golden
@pytest.mark.parametrize("missing", ["init/000/shared.conv1.weight", "noise/000", "learner_init/005/net.2.bias"])
def test_incomplete_files_are_explained(tmp_path: Path, recorded: dict[str, np.ndarray], missing: str) -> None:
    np.savez(tmp_path / "bad.npz", **{key: value for key, value in recorded.items() if key != missing})
    with pytest.raises(GradcastError, match=r"bad\.npz"):
        replay(tmp_path / "bad.npz")
