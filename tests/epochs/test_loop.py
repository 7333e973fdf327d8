"""Many epochs a task: order, plateau, reset, best weights, resuming, and that replicas do not feel each other."""

import json
from collections.abc import Callable

import pytest
import torch
from gradcast.epochs.core import Draw, Moment, Reset
from gradcast.epochs.loop import EpochLoop
from gradcast.epochs.schedule import Schedule
from gradcast.epochs.steps import StepEpochs
from torch import Tensor

from gradcast.core import Batch, Metrics
from gradcast.devices import Place
from gradcast.errors import Diverged
from gradcast.learners.acl.acl import Acl
from gradcast.learners.acl.settings import AclSettings
from gradcast.learners.finetune import Finetune
from gradcast.results.measures import measure
from gradcast.runs.checkpoint.state import pack, restore
from gradcast.training.loop import Position
from gradcast.training.step import Step
from tests.epochs.scene import SHORT, Diary, Notebook, acl_loop, finetune_loop, lessons, residual_loop
from tests.helpers import CPU, replicas
from tests.learners.acl.scene import CLASSES, SIDE, network

LOOPS: dict[str, Callable[..., EpochLoop]] = {"acl": acl_loop, "finetune": finetune_loop, "residual": residual_loop}


def test_order_of_events_and_positions() -> None:
    diary, saved = Diary(), list[Position]()
    finetune_loop().run([diary], Notebook([1, 3, 7], saved.append))
    steps = [[f"step {6 * task + step} task {task}" for step in range(6)] for task in range(2)]
    expected = ["evaluated after 0"]
    for task in range(2):
        expected += [*steps[task], f"trained task {task}", f"evaluated after {task + 1}"]
    assert diary.entries == expected
    assert saved == [Position(0, 1, 1), Position(0, 3, 3), Position(1, 0, 6), Position(1, 1, 7)]
    closed = ["validation_loss" in metrics for metrics in diary.metrics]
    assert closed == [False, False, True] * 4


def test_tasks_that_are_not_over_count_as_guessed_so_that_all_measures_are_known() -> None:
    diary = Diary()
    acl_loop().run([diary])
    matrices = torch.stack(diary.rows, dim=1)
    guessed = torch.full((2,), 1 / CLASSES, dtype=torch.float64)
    assert torch.equal(matrices[:, 0], guessed.expand(2, 2))
    assert torch.equal(matrices[:, 1, 1], guessed)
    assert not torch.equal(matrices[:, 1, 0], guessed)
    found = measure(matrices[0].numpy())
    assert found.fwt == 0
    assert found.bwt == float(matrices[0, 2, 0] - matrices[0, 1, 0])


@pytest.mark.parametrize("name", ["acl", "finetune"])
def test_replicas_together_equal_replicas_alone_even_when_one_stops_early(name: str) -> None:
    schedule = Schedule(epochs=5, patience=1, factor=3.0, smallest=0.09)
    together, diary = LOOPS[name]((3, 4), schedule, 0.3), Diary()
    together.run([diary])
    stopped = [float(metrics["loss"].isnan().sum()) for metrics in diary.metrics]
    for place, seed in enumerate((3, 4)):
        alone, own = LOOPS[name]((seed,), schedule, 0.3), Diary()
        alone.run([own])
        theta = together.learner.weights_for(0)
        torch.testing.assert_close(theta[place], alone.learner.weights_for(0)[0], rtol=1e-6, atol=1e-9)
        torch.testing.assert_close(torch.stack(diary.rows)[:, place], torch.stack(own.rows)[:, 0])
        losses = [metrics["loss"][place] for metrics in diary.metrics if not metrics["loss"][place].isnan()]
        torch.testing.assert_close(
            torch.stack(losses), torch.cat([m["loss"] for m in own.metrics]), rtol=1e-6, atol=1e-9
        )
    assert max(stopped) == 1  # one had stopped while the other went on


CUTS = [("acl", 2), ("acl", 3), ("acl", 7), ("finetune", 2), ("finetune", 6), ("residual", 4)]


@pytest.mark.parametrize(("name", "cut"), CUTS)
def test_a_run_that_is_cut_anywhere_goes_on_to_the_same_bits(name: str, cut: int) -> None:
    whole, again, diary, rest = cut_and_gone_on(LOOPS[name], cut)
    assert torch.equal(again.learner.model.theta, whole.learner.model.theta)
    assert torch.equal(again.learner.weights_for(0), whole.learner.weights_for(0))
    assert rest.entries == diary.entries[-len(rest.entries) :]
    assert torch.equal(rest.rows[-1], diary.rows[-1])
    ours, theirs = (told.metrics[-1] for told in (rest, diary))
    assert all(torch.equal(ours[key].nan_to_num(), theirs[key].nan_to_num()) for key in theirs)


def test_what_was_cut_before_a_reset_goes_on_to_the_same_bits() -> None:
    """Everything is at chance by decree: the second task is cut in its fifth epoch, before it starts anew."""
    schedule = Schedule(epochs=6, above_chance=1.0)
    whole, again, _, _ = cut_and_gone_on(lambda: acl_loop((3,), schedule), 18 + 13)
    assert torch.equal(again.learner.model.theta, whole.learner.model.theta)
    assert again.plateau.lr.tolist() == whole.plateau.lr.tolist() == pytest.approx([0.005])


def cut_and_gone_on(make: Callable[[], EpochLoop], cut: int) -> tuple[EpochLoop, EpochLoop, Diary, Diary]:
    """A whole run, and one that has what was packed before a step of it and trains the rest; what both told."""
    whole, again, diary, rest = make(), make(), Diary(), Diary()
    kept: list[tuple[str, dict[str, Tensor], Position]] = []

    def save(position: Position) -> None:
        tensors: dict[str, Tensor] = {}
        kept.append((json.dumps(pack({"loop": whole}, tensors)), tensors, position))

    whole.run([diary], Notebook([cut], save))
    text, tensors, position = next(each for each in kept if each[2].steps == cut)
    restore({"loop": again}, json.loads(text), tensors, CPU)
    again.run([rest], Notebook([], lambda position: None, position))
    return whole, again, diary, rest


class Scripted(StepEpochs):
    """Says what a script says of each epoch, adds one to its weights instead of training, and writes down the rest."""

    def __init__(self, losses: list[list[float]], hits: list[int]) -> None:
        super().__init__(Step(replicas(2, sizes=(SIDE * SIDE, 2 * CLASSES)), Finetune(), 0.0))
        self.script, self.hits, self.epoch = losses, hits, -1
        self.rates: list[list[float]] = []
        self.heard: list[tuple[str, list[bool]]] = []
        self.closed: list[tuple[list[float], list[bool]]] = []
        self.model.theta.zero_()

    def step(self, batch: Batch, draw: Draw, lr: Tensor, moment: Moment) -> Metrics:
        self.epoch = moment.epoch
        if moment.batch == 0:
            self.rates.append([round(float(rate), 6) for rate in lr])
        self.model.theta += (lr > 0).to(self.model.theta).unsqueeze(1)
        return {"loss": torch.zeros(2), "finite": torch.tensor([True, True])}

    def loss(self, batch: Batch, parts: int = 1) -> Metrics:
        size = batch.y.shape[1] // parts
        return {
            "loss": torch.tensor(self.script[self.epoch]),
            "hits": torch.tensor(self.hits) * size * parts // 8,
            "images": torch.tensor([size, size]),
        }

    def ended(self, train: Metrics, going: Tensor) -> None:
        self.closed.append((train["images"].tolist(), going.tolist()))

    def renew(self, which: Tensor) -> None:
        if which.any():
            self.heard.append((f"renewed {self.epoch}", which.tolist()))

    def restart(self, which: Tensor, how: Reset) -> None:
        self.heard.append((f"restarted {self.epoch} {how}", which.tolist()))


def scripted(losses: list[list[float]], hits: list[int], **options: object) -> tuple[EpochLoop, Scripted]:
    learner = Scripted(losses, hits)
    schedule = Schedule(epochs=len(losses), **options)  # type: ignore[arg-type]
    return EpochLoop(lessons((3, 4), tasks=1), learner, schedule, batch=8, lr=0.09), learner


def test_rates_drop_new_optimizers_come_and_the_best_epochs_weights_are_kept_replica_by_replica() -> None:
    losses = [[1.0, 1.0], [0.5, 1.0], [0.6, 0.9], [0.6, 0.9], [0.6, 0.8], [0.6, 0.8], [0.6, 0.8], [0.6, 0.7]]
    loop, learner = scripted(losses, [8, 8], patience=2, smallest=0.02, reset="never")
    loop.run([])
    a, b, none = 0.09, 0.03, 0.0
    assert learner.rates == [[a, a], [a, a], [a, a], [a, a], [b, a], [b, a], [none, a], [none, b]]
    assert learner.heard == [
        ("renewed 3", [True, False]),
        ("renewed 5", [True, False]),
        ("renewed 6", [False, True]),
    ]
    train = [8.0, 8.0]  # images a batch; validation batches have six
    assert learner.closed == [(train, [True, True])] * 6 + [(train, [False, True])] * 2
    best = loop.learner.model.theta[:, 0].tolist()
    assert best == [2 * 3.0, 8 * 3.0]  # three steps an epoch, the second epoch and the eighth


@pytest.mark.parametrize("how", ["fixed", "reference", "never"])
def test_a_replica_that_is_at_chance_in_the_fifth_epoch_starts_anew_at_a_tenth_of_its_rate(how: Reset) -> None:
    losses = [[1.0 - epoch / 10] * 2 for epoch in range(7)]
    loop, learner = scripted(losses, [2, 4], reset=how)
    loop.run([])
    low = 0.09 if how == "never" else 0.009
    assert learner.rates == [[0.09, 0.09]] * 5 + [[low, 0.09]] * 2
    assert learner.heard == ([] if how == "never" else [(f"restarted 4 {how}", [True, False])])


@pytest.mark.parametrize("how", ["fixed", "reference"])
def test_acl_trains_on_after_the_fixed_reset_and_stands_still_after_the_published_one(how: Reset) -> None:
    """Everything is at chance by decree; the restarted model's weights move or do not."""
    schedule = Schedule(epochs=7, reset=how, above_chance=1.0)
    loop, seen = acl_loop((3,), schedule), list[Tensor]()
    keeper = Notebook([15, 16, 18], lambda position: seen.append(loop.learner.model.theta.clone()))
    loop.run([], keeper)
    moved = [not torch.equal(seen[0], later) for later in seen[1:3]]
    assert moved == [how == "fixed"] * 2


def test_divergence_names_step_task_and_seed() -> None:
    loop = finetune_loop(lr=1e300)
    with pytest.raises(Diverged, match=r"not finite at step \d+ \(task 0, seed 3\): training diverged; lower"):
        loop.run([])


def test_two_epochs_of_two_tasks_of_digits_are_learned() -> None:
    """By all that is published but the size of the network; chance is a third."""
    acl = Acl(lambda: network(0.1, latent=32), [0, 1], AclSettings(), place=Place(CPU, torch.float32))
    diary = Diary()
    EpochLoop(lessons([0, 1], each=40, dtype=torch.float32), acl, SHORT, batch=16, lr=0.1).run([diary])
    learned = torch.stack([diary.rows[task + 1][:, task] for task in range(2)])
    assert float(learned.mean()) > 0.75
    assert float(learned.min()) > 0.5
