import pytest
import torch
from torch import Tensor, nn

from gradcast.errors import GradcastError
from gradcast.head_start.callers_network import callers_network, identity_of
from gradcast.networks import MLP, ConvLarge

SHAPE = (3, 8, 8)


class Scaled(nn.Module):
    """A setting of its own that no layer shows."""

    def __init__(self, outputs: int = 4, scale: float = 1.0) -> None:
        super().__init__()
        self.scale, self.linear = scale, nn.Linear(192, outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(self.scale * x.flatten(1))  # type: ignore[no-any-return]


def test_a_module_keeps_its_outputs_and_is_copied() -> None:
    given = Scaled(7)
    found = callers_network(given, SHAPE, 10)
    assert found.outputs == 7
    assert found.make() is not given
    assert torch.equal(found.make().linear.weight, given.linear.weight)


def test_what_makes_one_is_given_the_outputs_asked_for() -> None:
    assert callers_network(Scaled, SHAPE, 6).outputs == 6
    assert callers_network(lambda: Scaled(3), SHAPE, 6).outputs == 3


def test_random_numbers_of_the_caller_are_left_alone() -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    callers_network(Scaled, SHAPE, 6)
    assert torch.equal(torch.get_rng_state(), before)


def no_network() -> int:
    return 3


def broken() -> nn.Module:
    raise ValueError("no such file")


def frozen() -> nn.Module:
    return Scaled().requires_grad_(False)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (nn.Conv2d(3, 4, 8), "Conv2d has no linear layer, whose inputs .* let it end in an nn.Linear"),
        (MLP([12, 3, 2]), "cannot take images of 3 x 8 x 8"),
        (nn.Sequential(nn.Flatten(), nn.Linear(192, 4), nn.Unflatten(1, (2, 2))), r"gives \(2, 2, 2\) for 2 images"),
        (no_network, "no_network gives a int, not a torch.nn.Module"),
        (broken, r"broken cannot make a network \(ValueError: no such file\)"),
        (frozen, "frozen has no weights to train"),
        (3, "the model is a int; give a network's name"),
    ],
)  # fmt: skip
def test_what_does_not_work_is_said(given: object, message: str) -> None:
    with pytest.raises(GradcastError, match=message):
        callers_network(given, SHAPE, 4)


def test_networks_are_told_apart_by_more_than_their_weights() -> None:
    assert identity_of(Scaled()) == identity_of(Scaled())
    assert identity_of(Scaled()) != identity_of(Scaled(scale=2.0))
    assert identity_of(ConvLarge(4)) != identity_of(ConvLarge(4, dropout=0.1))
    assert identity_of(Scaled().eval()) == identity_of(Scaled().train())


def test_a_class_without_source_is_never_the_same() -> None:
    space: dict[str, type[nn.Module]] = {}
    exec("class Own(Scaled): pass", {"Scaled": Scaled}, space)  # noqa: S102 -- as an interpreter's prompt does
    assert identity_of(space["Own"]()) != identity_of(space["Own"]())
