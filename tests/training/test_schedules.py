"""One task, few labels: order, resuming, independence of replicas, and that unlabelled digits help."""

import json
import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from gradcast.errors import Diverged
from gradcast.runs.checkpoint.state import pack, restore
from gradcast.training.loop import Position
from tests.epochs.scene import Diary, Notebook
from tests.helpers import CPU
from tests.semi.scene import SHORT, Method, errors, loop, quick

METHODS: tuple[Method, ...] = ("supervised", "mg", "mg-predicted", "mean-teacher")


def test_order_of_events_and_positions() -> None:
    diary, saved = Diary(), list[Position]()
    loop("supervised").run([diary], Notebook([5], saved.append))
    assert diary.entries == [
        "evaluated after 0",
        *(f"step {step} task 0" for step in range(12)),
        "trained task 0",
        "evaluated after 1",
    ]
    assert ["test_accuracy" in told for told in diary.metrics] == [False, False, False, True] * 3
    assert torch.equal(diary.metrics[-1]["test_accuracy"], diary.rows[-1][:, 0])
    assert saved == [Position(0, 5, 5)]
    assert [row.shape for row in diary.rows] == [(2, 1), (2, 1)]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("cut", [1, 7])
def test_a_run_that_is_cut_anywhere_goes_on_to_the_same_bits(method: Method, cut: int) -> None:
    whole, again, diary, rest = loop(method), loop(method), Diary(), Diary()
    kept: list[tuple[str, dict[str, Tensor], Position]] = []

    def save(position: Position) -> None:
        tensors: dict[str, Tensor] = {}
        kept.append((json.dumps(pack({"loop": whole}, tensors)), tensors, position))

    whole.run([diary], Notebook([cut], save))
    text, tensors, position = kept[0]
    restore({"loop": again}, json.loads(text), tensors, CPU)
    again.run([rest], Notebook([], lambda position: None, position))
    assert torch.equal(again.judged.theta, whole.judged.theta)
    assert torch.equal(again.step.model.theta, whole.step.model.theta)
    assert rest.entries == diary.entries[1 + cut :]
    ours, theirs = rest.metrics[-1], diary.metrics[-1]
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


@pytest.mark.parametrize("method", METHODS)
def test_replicas_together_equal_replicas_alone(method: Method) -> None:
    together, diary = loop(method, (3, 4)), Diary()
    together.run([diary])
    for place, seed in enumerate((3, 4)):
        alone, own = loop(method, (seed,)), Diary()
        if method == "mg-predicted":  # h of the second replica is no other's: only the first is the same alone
            if place:
                continue
            h, its = (each.step.parts[1].state() for each in (loop(method, (3, 4)), alone))
            for name, weight in its.items():
                weight.copy_(h[name][:1])
        alone.run([own])
        torch.testing.assert_close(together.judged.theta[place], alone.judged.theta[0], rtol=1e-6, atol=1e-9)
        torch.testing.assert_close(diary.rows[-1][place], own.rows[-1][0])


def test_divergence_names_step_and_seed() -> None:
    with pytest.raises(Diverged, match=r"not finite at step \d+ \(seed 3\): training diverged; lower learner.lr"):
        loop("mg", schedule=replace(SHORT, lr=1e200)).run([])


def test_meta_gradient_makes_fewer_errors_than_labels_alone_on_digits() -> None:
    """A hundred labels, 1,197 images without; the published course in 200 steps, five paired seeds."""
    found: dict[str, Tensor] = {}
    for method in ("supervised", "mg"):
        diary = Diary()
        loop(method, range(5), quick(200, 100), size=64, dtype=torch.float32).run([diary])
        found[method] = errors(diary.rows)
    difference = found["mg"] - found["supervised"]
    assert float(difference.mean()) < -1.5
    assert float(difference.mean()) < -2 * float(difference.std()) / math.sqrt(5)
    assert float(found["supervised"].mean()) < 15
