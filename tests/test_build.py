from pathlib import Path

import pytest
import torch
from PIL import Image

from gradcast import build
from gradcast.build import Place
from gradcast.errors import GradcastError
from gradcast.learners import Finetune, Gem
from gradcast.signals import Predicted
from gradcast.spec import FolderSpec, PredictedSpec
from gradcast.specfile import load
from tests.helpers import CPU

PLACE = Place(CPU, torch.float32, Path("data"))


def untracked(paths: object, what: str) -> object:
    return paths


def test_replicas_start_from_their_own_seeds() -> None:
    setting = load("digits").rows[0].setting
    stream = build.stream(setting.stream, PLACE.data)
    heads = build._heads(setting, stream)
    both = build.model(setting.model, stream, heads, [3, 4], PLACE)
    alone = build.model(setting.model, stream, heads, [4], PLACE)
    assert torch.equal(both.theta[1], alone.theta[0])
    assert not torch.equal(both.theta[0], both.theta[1])


def test_gradient_learners_start_from_their_own_seeds() -> None:
    spec = PredictedSpec(name="predicted")
    both, alone = build.gradient_learner(spec, 10, [3, 4], PLACE), build.gradient_learner(spec, 10, [4], PLACE)
    for together, own in zip(both.parameters(), alone.parameters(), strict=True):
        assert torch.equal(together[1], own[0])
        assert not torch.equal(together[0], together[1])


@pytest.mark.parametrize(("name", "kind"), [("finetune", Finetune), ("gem", Gem), ("dcl", Gem)])
def test_learners_by_name(name: str, kind: type) -> None:
    setting = load("digits", [f"learner.name={name}"]).rows[0].setting
    found = build.learner(setting, 3)
    assert isinstance(found, kind)
    if isinstance(found, Gem):
        assert (found.direction is not None) == (name == "dcl")
        assert (found.memory.size, found.margin) == (128, 0.5)


def test_every_option_of_the_signal_arrives() -> None:
    options = {
        "hidden": "[7]",
        "alpha": "0.2",
        "loss_scale": "3.0",
        "objective": "cosine",
        "optimizer": "adam",
        "lr": "0.01",
        "activation": "tanh",
        "bias": "true",
        "directions": "frozen",
    }
    setting = load("digits", [f"signal.{key}={value}" for key, value in options.items()]).rows[1].setting
    found = build.signal(setting, 10, [0], PLACE)
    assert isinstance(found, Predicted)
    learner = found.learner
    assert [tuple(w.shape) for w in learner.weights] == [(1, 7, 10), (1, 10, 7)]
    assert (learner.alpha, learner.loss_scale, learner.objective, learner.lr) == (0.2, 3.0, "cosine", 0.01)
    assert (learner.activation, len(learner.biases), found.directions) == ("tanh", 2, "frozen")
    assert isinstance(learner.optimizer, torch.optim.Adam)
    assert set(options) | {"name", "tau"} == set(PredictedSpec.model_fields)


def test_relative_pool_folders_are_found_in_the_data_folder(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    Image.new("L", (9, 9), 80).save(tmp_path / "photos" / "a.png")
    stream = build.stream(load("digits").rows[0].setting.stream, tmp_path)
    place = Place(CPU, torch.float32, tmp_path)
    found = build.pool(FolderSpec(name="folder", path="photos"), stream, place, data_seed=0, track=untracked)  # type: ignore[arg-type]
    assert len(found) == 1
    with pytest.raises(GradcastError, match=r"neither .*elsewhere nor elsewhere"):
        build.pool(FolderSpec(name="folder", path="elsewhere"), stream, place, data_seed=0, track=untracked)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("scenario", "heads", "outputs"), [("rotated", "auto", 10), ("split", "auto", 10), ("split", "shared", 2)]
)
def test_heads_follow_the_scenario(scenario: str, heads: str, outputs: int) -> None:
    settings = [f"stream.scenario={scenario}", f"model.heads={heads}", "stream.tasks=5", "stream.samples=100"]
    setting = load("digits", settings).rows[0].setting
    assert build._heads(setting, build.stream(setting.stream, PLACE.data)).outputs == outputs
