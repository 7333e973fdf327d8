import torch
from torch.nn.functional import cross_entropy

from gradcast.core import Batch, Unlabelled
from gradcast.networks import SlimResNet18
from gradcast.randomness import seeded, torch_generator
from gradcast.replicas.heads import Heads
from gradcast.replicas.replicas import Replicas
from gradcast.signals.head import Head
from gradcast.signals.rotation import Rotation
from tests.helpers import CPU
from tests.replicas.passes.reference import numbers

LABELLED = Batch(torch.zeros(2, 1, 3, 8, 8), torch.zeros(2, 1, dtype=torch.long), 0)


def scene() -> tuple[Replicas, Rotation]:
    modules = []
    for seed in range(2):
        with seeded(seed, "model"):
            modules.append(SlimResNet18(2, 6))
    model = Replicas(modules, Heads.even(3, 2, masked=True), device=CPU, dtype=torch.float64)
    head = Head([16, 4], [0, 1], "rotation", model.theta, lr=0.1)
    return model, Rotation(head, weight=0.3, generators=[torch_generator(r, "turns") for r in range(2)])


def test_the_head_is_asked_for_the_turns() -> None:
    model, signal = scene()
    x = numbers(2, 5, 3, 8, 8)
    shown = Unlabelled(x, torch.tensor([True, True]))
    weights = signal.head.weights[0].detach().clone()
    signal.prepare(LABELLED, shown)
    _, metrics = signal.gradient(model, shown, 0)
    assert signal.turns is not None
    expected = torch.stack([_turns(r) for r in range(2)])
    assert torch.equal(signal.turns, expected)
    turned = torch.stack(
        [torch.stack([torch.rot90(x[r, i], int(expected[r, i]), (1, 2)) for i in range(5)]) for r in range(2)]
    )
    features = model.embed(turned, statistics="separate").z
    answers = features @ weights[..., :-1].mT + weights[..., -1:].mT
    losses = torch.stack([cross_entropy(answers[r], expected[r]) for r in range(2)])
    torch.testing.assert_close(metrics["signal_loss"], losses)


def _turns(replica: int) -> torch.Tensor:
    return torch.randint(4, (5,), generator=torch_generator(replica, "turns"))


def test_a_replica_that_sits_out_draws_nothing() -> None:
    _, signal = scene()
    x = numbers(2, 5, 3, 8, 8)
    signal.prepare(LABELLED, Unlabelled(x, torch.tensor([True, False])))
    assert signal.turns is not None
    place = signal.turns.data_ptr()
    assert not signal.turns[1].any()
    signal.prepare(LABELLED, Unlabelled(x, torch.tensor([False, True])))
    assert torch.equal(signal.turns[1], _turns(1))
    assert signal.turns.data_ptr() == place
