import pytest
import torch

from gradcast.learners.acl.acl import Acl
from gradcast.learners.acl.acl_table import ENTRY, AclSpec
from gradcast.networks.acl_network import AclNetwork
from gradcast.specs import build
from gradcast.training.schedule_tables import StepsSpec
from tests.training.scene import scheduled, shared


@pytest.mark.parametrize("model", ["alexnet-like", "slim-resnet18"])
def test_the_models_table_is_the_shared_modules(model: str) -> None:
    changes = ["model.name=slim-resnet18", "model.width=1"] if model == "slim-resnet18" else []
    setting = scheduled("acl", *changes)
    stream = shared().stream(setting)
    made, heads = build.network(setting, stream), build.heads(setting, stream)
    assert isinstance(made, AclNetwork)
    assert heads.width == made.classes == 5
    assert heads.extra == 2 * made.latent == 2 * (8 if model == "slim-resnet18" else 6)
    assert made.eval()(torch.zeros(2, *stream.shape)).shape == (2, 5 + heads.extra)


def test_it_trains_in_its_own_way_and_says_so() -> None:
    assert ENTRY.trainer is not None
    assert {"own-network", "task-modules", "one-head"} == ENTRY.traits
    assert ENTRY.recalled(AclSpec(name="acl", memory=10), 3, 8) == (28, 0)
    assert AclSpec(name="acl").model_dump().keys() >= {"lr", "updates", "private_width"}
    assert not {"memory", "difference"} & AclSpec(name="acl").model_dump().keys()


def test_steps_that_are_not_finite_may_be_undone() -> None:
    made = shared().loop(scheduled("acl"), [0], skips=True).trainer
    assert isinstance(made, Acl)
    assert made.skips


def test_without_validation_the_discriminator_keeps_its_rate() -> None:
    course = StepsSpec(name="steps", steps=3, warm_up=0, milestones=[], test_every=3)
    setting = scheduled("acl", "learner.discriminator_lr=0.02").model_copy(update={"schedule": course})
    made = shared().loop(setting, [0, 1]).trainer
    assert isinstance(made, Acl)
    assert made.judging.lr.tolist() == [0.02, 0.02]
