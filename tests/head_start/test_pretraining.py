"""The course of a head start, against one that any PyTorch user would write."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy, normalize

from gradcast.errors import Diverged
from gradcast.head_start.course import features
from gradcast.head_start.probe import Probe
from gradcast.signals.contrastive import Contrastive
from gradcast.streams.draws import Feed
from tests.head_start.scene import course, mlp, resnet


def projection(signal: Contrastive, replica: int) -> nn.Sequential:
    """The head as a module."""
    layers: list[nn.Module] = []
    for weight in signal.head.weights:
        layer = nn.Linear(weight.shape[2] - 1, weight.shape[1], dtype=torch.float64)
        layer.weight.data, layer.bias.data = weight[replica, :, :-1].clone(), weight[replica, :, -1].clone()
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


@pytest.mark.parametrize("network", [mlp, resnet])
def test_an_ordinary_training_loop_ends_at_the_same_weights(network: object) -> None:
    own = course(network, steps=5, weight_decay=0.01, momentum=0.9, warm_up=0.4, lr=0.1)
    made = own.prepare([3, 8], None)
    model, signal = made.step.model, made.step.signals[0].signal
    assert isinstance(signal, Contrastive)
    feed = Feed(own.pool, [3, 8], 4, made.feeds[0].views)
    feed.begin(0, ("head start",))
    shown = [feed.batch(0, np.ones(2, dtype=bool)).x for _ in range(5)]
    plain, heads = [module.train() for module in own.model([3, 8]).modules], [projection(signal, r) for r in (0, 1)]
    made.run()
    for replica, (module, head) in enumerate(zip(plain, heads, strict=True)):
        last = [layer for layer in module.modules() if isinstance(layer, nn.Linear)][-1]
        seen: list[torch.Tensor] = []
        last.register_forward_pre_hook(lambda _, inputs, seen=seen: seen.append(inputs[0]))
        for parameter in last.parameters():
            parameter.requires_grad_(False)
        weights = [*(p for p in module.parameters() if p.requires_grad), *head.parameters()]
        optimizer = torch.optim.SGD(weights, lr=0.1, momentum=0.9, weight_decay=0.01)
        for number, x in enumerate(shown):
            rate = 0.1 * (number + 1) / 2 if number < 2 else 0.05 * (1 + math.cos(math.pi * (number - 2) / 3))
            optimizer.param_groups[0]["lr"] = rate
            module(x[replica])
            rows = normalize(head(seen[-1]), dim=-1)
            scores = (rows @ rows.T / 0.2).masked_fill(torch.eye(8, dtype=torch.bool), -torch.inf)
            loss = cross_entropy(scores, (torch.arange(8) + 4) % 8)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            assert made.curve[number][1][replica] == pytest.approx(float(loss.detach()), rel=1e-10)
        named = dict(module.named_parameters()) | dict(module.named_buffers())
        for name, rows in features(model).items():
            torch.testing.assert_close(rows[replica], named[name].detach(), rtol=1e-9, atol=1e-9)


def test_seeds_together_are_seeds_alone() -> None:
    own = course(steps=4, signal=["vicreg", "rotation"])
    both, alone = own.prepare([0, 1], None), own.prepare([1], None)
    both.run()
    alone.run()
    torch.testing.assert_close(both.step.model.theta[1:], alone.step.model.theta, rtol=1e-10, atol=1e-12)


def test_losses_and_probes_are_told() -> None:
    own = course(steps=10, probes=2)
    probe = Probe(torch.rand(1, 6, 3, 8, 8, dtype=torch.float64), torch.tensor([[0, 1, 0, 1, 0, 1]]))
    made = own.prepare([4], probe)
    made.run()
    told = made.told(0)
    assert [step for step, _ in told["loss"]] == list(range(1, 11))  # type: ignore[attr-defined]
    assert [step for step, _ in told["nearest_neighbour"]] == [0, 5, 10]  # type: ignore[attr-defined]
    assert (told["steps"], told["seeds_at_once"]) == (10, 1)
    assert own.prepare([4], None).told(0)["nearest_neighbour"] == []


def test_one_that_diverges_ends_in_a_sentence() -> None:
    made = course(steps=30, lr=1e200).prepare([5], None)
    with pytest.raises(Diverged, match=r"seed 5.*lower head_start\.lr or the signal's weight"):
        made.run()
