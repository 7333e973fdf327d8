import torch

from gradcast.networks import MLP
from gradcast.networks.entrance_network import EntranceNetwork


def test_it_computes_what_a_perceptron_of_the_same_weights_does() -> None:
    torch.manual_seed(0)
    made, plain = EntranceNetwork([12, 5, 4, 3]), MLP([12, 5, 4, 3])
    weights = [*made.entrance.state_dict().values(), *made.shared.state_dict().values()]
    plain.load_state_dict(dict(zip(plain.state_dict(), weights, strict=True)))
    x = torch.rand(6, 1, 3, 4)
    assert torch.equal(made(x), plain(x))


def test_shared_weights_come_first() -> None:
    names = [name.partition(".")[0] for name, _ in EntranceNetwork([6, 5, 3]).named_parameters()]
    assert names == ["shared"] * 2 * 1 + ["entrance"] * 2
