import pytest
import torch

from gradcast.core import Labelled
from gradcast.epochs.signalled import add_signal, begin_update, check_policy, mean_over
from gradcast.errors import GradcastError
from gradcast.gradients.gradient import Gradient
from gradcast.signals.forward_only import ForwardOnly
from gradcast.signals.meta_gradient import MetaGradient
from gradcast.signals.policy import Policy
from tests.signals.scene import scene


def test_only_joint_updates_are_offered() -> None:
    assert check_policy(Policy(p=0.5)).p == 0.5
    with pytest.raises(GradcastError, match="'sequential' is not for learners that train many epochs"):
        check_policy(Policy(update="sequential"))


def test_the_signals_gradient_is_added() -> None:
    own = scene()
    zero = Gradient(torch.zeros_like(own.model.theta))
    labelled = Labelled(own.batch, torch.zeros(2, 4, 3).double(), torch.zeros(2, 4, 3).double(), 0.1)
    ours, other = MetaGradient(), MetaGradient()
    found, metrics = add_signal(ours, own.model, labelled, zero, own.unlabelled, Policy())
    other.learn(own.model, labelled)
    assert torch.equal(found.flat, own.gradient(other))
    assert found.flat.any()
    assert metrics["unlabelled"].tolist() == [6, 6]
    without, told = add_signal(ours, own.model, labelled, zero, None, Policy())
    assert without is zero
    assert told["unlabelled"].tolist() == [0, 0]


def test_updates_of_one_name_have_the_same_random_numbers() -> None:
    model = scene().model
    model.chance.labelled.drawn = True
    drawn = []
    for name in ("0/0/0/0", "0/0/0/1", "0/0/0/0"):
        begin_update(model, ForwardOnly(), name)
        drawn.append(torch.rand(3, generator=model.chance.labelled.generators[0]).tolist())
    assert drawn[0] == drawn[2] != drawn[1]


def test_means_are_over_updates_that_have_something_to_say() -> None:
    nan = float("nan")
    found = mean_over([{"a": torch.tensor([1.0, nan]), "b": torch.tensor([5.0, 6.0])}, {"a": torch.tensor([3.0, 4.0])}])
    assert {name: value.tolist() for name, value in found.items()} == {"a": [2.0, 4.0], "b": [5.0, 6.0]}
