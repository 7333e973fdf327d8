"""Validation decides: order, plateau, reset, best weights, resuming, and that replicas do not feel each other."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor

from gradcast.core import Batch, Learner, Metrics
from gradcast.devices import Place
from gradcast.errors import Diverged
from gradcast.gradients.sgd import Sgd
from gradcast.learners.acl.acl import Acl
from gradcast.learners.acl.settings import AclSettings
from gradcast.learners.agem import Agem
from gradcast.learners.der import Der
from gradcast.learners.er import Er
from gradcast.learners.finetune import Finetune
from gradcast.learners.registry import LEARNERS
from gradcast.memories.by_class import ClassMemory
from gradcast.memories.reservoir import Reservoir
from gradcast.replicas.heads import Heads
from gradcast.results.feature_files import read_feature_map
from gradcast.results.measures import measure
from gradcast.runs.checkpoint.keeper import Safety
from gradcast.runs.run import run
from gradcast.signals.predicted import Predicted
from gradcast.specs.spec import Row, Spec
from gradcast.specs.text import dump, load
from gradcast.training.average import Average
from gradcast.training.loop import Loop, Position
from gradcast.training.plateau import Plateau, mean_loss
from gradcast.training.plateau_rates import Reset
from gradcast.training.schedule_tables import PlateauSpec
from gradcast.training.step import Step
from gradcast.training.trainer import Draw, StepTrainer, Turn
from tests.helpers import CPU, EITHER_DEVICE, replicas
from tests.learners.acl.scene import CLASSES, SIDE, network
from tests.runs.checkpoint.scene import Scene
from tests.training.scene import (
    SHORT,
    TINY,
    Diary,
    Notebook,
    acl_loop,
    cut_and_gone_on,
    epoch,
    finetune_loop,
    plateau_loop,
    residual_loop,
    scheduled,
    shared,
    task_data,
    trained,
    weights_of,
)

LOOPS: dict[str, Callable[..., Loop]] = {"acl": acl_loop, "finetune": finetune_loop, "residual": residual_loop}
REPLAYING: dict[str, Callable[[Sequence[int]], Learner]] = {
    "er": lambda seeds: Er(Reservoir(20, seeds), 5),
    "er every": lambda seeds: Er(Reservoir(20, seeds), 5, every=True),
    "der every": lambda seeds: Der(Reservoir(20, seeds), 5, every=True),
    "a-gem": lambda seeds: Agem(ClassMemory(Heads.even(CLASSES, 2, masked=True), 12, seeds=seeds), 8),
}


def replaying(name: str) -> Callable[..., Loop]:
    return lambda seeds, spec, lr: finetune_loop(seeds, spec, lr, learner=REPLAYING[name](seeds))


LOOPS |= {name: replaying(name) for name in REPLAYING}


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


@pytest.mark.parametrize("name", ["acl", "finetune", *REPLAYING])
def test_replicas_together_equal_replicas_alone_even_when_one_stops_early(name: str) -> None:
    schedule = PlateauSpec(epochs=5, patience=1, factor=3.0, smallest=0.09)
    together, diary = LOOPS[name]((3, 4), schedule, 0.3), Diary()
    together.run([diary])
    stopped = [float(metrics["loss"].isnan().sum()) for metrics in diary.metrics]
    for place, seed in enumerate((3, 4)):
        alone, own = LOOPS[name]((seed,), schedule, 0.3), Diary()
        alone.run([own])
        theta = weights_of(together, 0)
        torch.testing.assert_close(theta[place], weights_of(alone, 0)[0], rtol=1e-6, atol=1e-9)
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
    assert torch.equal(again.trainer.model.theta, whole.trainer.model.theta)
    assert torch.equal(weights_of(again, 0), weights_of(whole, 0))
    assert rest.entries == diary.entries[-len(rest.entries) :]
    assert torch.equal(rest.rows[-1], diary.rows[-1])
    ours, theirs = (told.metrics[-1] for told in (rest, diary))
    assert all(torch.equal(ours[key].nan_to_num(), theirs[key].nan_to_num()) for key in theirs)


def test_what_was_cut_before_a_reset_goes_on_to_the_same_bits() -> None:
    """Everything is at chance by decree: the second task is cut in its fifth epoch, before it starts anew."""
    schedule = PlateauSpec(epochs=6, above_chance=1.0)
    whole, again, _, _ = cut_and_gone_on(lambda: acl_loop((3,), schedule), 18 + 13)
    assert torch.equal(again.trainer.model.theta, whole.trainer.model.theta)
    assert rates_of(again) == rates_of(whole) == pytest.approx([0.005])


def test_training_images_are_evaluated_in_the_batches_that_the_epoch_had() -> None:
    """Losses are means over batches: which images share a short batch matters."""
    loop, diary = finetune_loop(spec=PlateauSpec(epochs=1), size=7), Diary()
    loop.run([diary])
    own = [loop.trainer.loss(batch)["loss"] for batch in epoch(loop.data, 1, 0, 7)]
    assert [batch.y.shape[1] for batch in epoch(loop.data, 1, 0, 7)] == [7, 7, 7, 3]
    torch.testing.assert_close(diary.metrics[-1]["train_loss"], torch.stack(own).mean(0))


def test_a_mean_counts_batches_for_losses_and_images_for_right_answers() -> None:
    data = task_data((3, 4))

    def loss(batch: Batch, parts: int) -> Metrics:
        size = batch.y.shape[1] // parts
        return {"loss": torch.tensor([size, -size]), "hits": torch.tensor([batch.y.shape[1], 0])}

    found = mean_loss(data, loss, [data.train(0), data.validation(0)], 9)  # batches of 9, 9, 6 and 6
    assert found["loss"].tolist() == [7.5, -7.5]
    assert found["accuracy"].tolist() == [1.0, 0.0]


def rates_of(loop: Loop) -> list[float]:
    assert isinstance(loop.schedule, Plateau)
    return loop.schedule.rates.lr.tolist()


class Scripted(StepTrainer):
    """Says what a script says of each epoch, adds one to its weights instead of training, and writes down the rest."""

    def __init__(self, losses: list[list[float]], hits: list[int]) -> None:
        super().__init__(Step(replicas(2, sizes=(SIDE * SIDE, 2 * CLASSES)), Finetune(), 0.0), restarts=True)
        self.script, self.hits, self.epoch = losses, hits, -1
        self.rates: list[list[float]] = []
        self.heard: list[tuple[str, list[bool]]] = []
        self.closed: list[tuple[list[float], list[bool]]] = []
        self.model.theta.zero_()

    def step(self, batch: Batch, draw: Draw, turn: Turn) -> Metrics:
        lr = turn.lr
        assert isinstance(lr, Tensor)
        self.epoch = turn.epoch
        if turn.place == 0:
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

    def epoch_ended(self, train: Metrics, going: Tensor) -> None:
        self.closed.append((train["images"].tolist(), going.tolist()))

    def renew(self, which: Tensor) -> None:
        if which.any():
            self.heard.append((f"renewed {self.epoch}", which.tolist()))

    def restart(self, which: Tensor, how: Reset) -> None:
        self.heard.append((f"restarted {self.epoch} {how}", which.tolist()))


def scripted(losses: list[list[float]], hits: list[int], **options: object) -> tuple[Loop, Scripted]:
    trainer = Scripted(losses, hits)
    spec = PlateauSpec(epochs=len(losses), **options)  # type: ignore[arg-type]
    return plateau_loop(task_data((3, 4), tasks=1), trainer, spec, lr=0.09), trainer


def test_rates_drop_new_optimizers_come_and_the_best_epochs_weights_are_kept_replica_by_replica() -> None:
    losses = [[1.0, 1.0], [0.5, 1.0], [0.6, 0.9], [0.6, 0.9], [0.6, 0.8], [0.6, 0.8], [0.6, 0.8], [0.6, 0.7]]
    loop, trainer = scripted(losses, [8, 8], patience=2, smallest=0.02, reset="never")
    loop.run([])
    a, b, none = 0.09, 0.03, 0.0
    assert trainer.rates == [[a, a], [a, a], [a, a], [a, a], [b, a], [b, a], [none, a], [none, b]]
    assert trainer.heard == [
        ("renewed 3", [True, False]),
        ("renewed 5", [True, False]),
        ("renewed 6", [False, True]),
    ]
    train = [8.0, 8.0]  # images a batch; validation batches have six
    assert trainer.closed == [(train, [True, True])] * 5 + [(train, [False, True])] * 3
    best = loop.trainer.model.theta[:, 0].tolist()
    assert best == [2 * 3.0, 8 * 3.0]  # three steps an epoch, the second epoch and the eighth


@pytest.mark.parametrize("how", ["fixed", "reference", "never"])
def test_a_replica_that_is_at_chance_in_the_fifth_epoch_starts_anew_at_a_tenth_of_its_rate(how: Reset) -> None:
    losses = [[1.0 - epoch / 10] * 2 for epoch in range(7)]
    loop, trainer = scripted(losses, [2, 4], reset=how)
    loop.run([])
    low = 0.09 if how == "never" else 0.009
    assert trainer.rates == [[0.09, 0.09]] * 5 + [[low, 0.09]] * 2
    assert trainer.heard == ([] if how == "never" else [(f"restarted 4 {how}", [True, False])])


@pytest.mark.parametrize("how", ["fixed", "reference"])
def test_acl_trains_on_after_the_fixed_reset_and_stands_still_after_the_published_one(how: Reset) -> None:
    """Everything is at chance by decree; the restarted model's weights move or do not."""
    schedule = PlateauSpec(epochs=7, reset=how, above_chance=1.0)
    loop, seen = acl_loop((3,), schedule), list[Tensor]()
    keeper = Notebook([15, 16, 18], lambda position: seen.append(loop.trainer.model.theta.clone()))
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
    plateau_loop(task_data([0, 1], each=40, dtype=torch.float32), acl, SHORT, size=16, lr=0.1).run([diary])
    learned = torch.stack([diary.rows[task + 1][:, task] for task in range(2)])
    assert float(learned.mean()) > 0.75
    assert float(learned.min()) > 0.5


OWN = ("acl", "pnn", "hat")
RESIDUAL = "acl model.name=slim-resnet18 model.width=1 policy.batchnorm=separate"


def fits(learner: str, signal: str) -> bool:
    return not (learner in OWN and signal == "distil") and not (
        learner in ("pnn", "hat") and signal in ("one-hot", "soft")
    )


PAIRS = [(learner, "predicted") for learner in LEARNERS if learner not in ("python", "multimodal")]  # an MLP alone
PAIRS += [(learner, signal) for learner in OWN for signal in ("one-hot", "noise")]


@pytest.mark.parametrize(("learner", "signal"), [pair for pair in PAIRS if fits(*pair)])
def test_every_learner_trains_with_signals_and_every_replica_as_it_would_alone(learner: str, signal: str) -> None:
    own = scheduled(learner, f"signal.name={signal}")
    (together, both), (alone, single) = trained(own, [0, 1]), trained(own, [1])
    for then, now in zip(both.metrics, single.metrics, strict=True):
        torch.testing.assert_close(then["loss"][1], now["loss"][0], rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(weights_of(together, 0)[1], weights_of(alone, 0)[0], rtol=1e-2, atol=1e-3)
    used = [metrics["unlabelled"][0] for metrics in both.metrics]
    assert any(used)
    assert not all(used)


def test_settings_arrive() -> None:
    own = scheduled("acl", "learner.adversarial=0.3", "learner.discriminator_lr=0.02", "schedule.patience=7")
    loop = shared().loop(own, [0])
    acl, schedule = loop.trainer, loop.schedule
    assert isinstance(acl, Acl)
    assert isinstance(schedule, Plateau)
    assert (acl.settings.adversarial, acl.judging.initial, acl.judging.most) == (0.3, 0.02, 7)
    assert (schedule.batch, schedule.rates.initial, schedule.rates.most, schedule.spec.epochs) == (50, 0.03, 7, 1)
    (own_signal,) = acl.training.update.signals
    assert isinstance(own_signal.signal, Predicted)
    h = own_signal.signal.learner
    assert isinstance(h.optimizer, Sgd)
    assert (h.activation, len(h.biases), h.optimizer.momentum, h.optimizer.decay) == ("none", 3, 0.9, 0.01)
    stepwise = shared().loop(scheduled("er", "learner.momentum=0.3", "learner.decay=0.2"), [0])
    assert isinstance(stepwise.trainer, StepTrainer)
    assert stepwise.trainer.update.sgd is not None
    assert (stepwise.trainer.update.sgd.momentum, stepwise.trainer.update.sgd.decay) == (0.3, 0.2)


def test_a_residual_shared_module_trains_two_tasks_of_two_epochs_and_every_replica_as_it_would_alone() -> None:
    own = scheduled(*RESIDUAL.split(), "schedule.epochs=2", "stream.batch=100", "policy.batch=100", "policy.p=1.0")
    (together, both), (alone, single) = trained(own, [0, 1]), trained(own, [1])
    batches = together.data.length(0, 100)
    assert len(both.metrics) == 2 * 2 * batches
    assert sum(float(metrics["unlabelled"][0]) for metrics in both.metrics) == 2 * 2 * (batches - 1) * 100  # full ones
    for then, now in zip(both.metrics[:batches], single.metrics[:batches], strict=True):
        torch.testing.assert_close(then["loss"][1], now["loss"][0], rtol=1e-3, atol=1e-4)
    assert isinstance(alone.trainer, Acl)
    assert alone.trainer.model.heads.outputs == 5 + 2 * 8
    assert {"model.shared.layer4.1.bn2.running_var", "task-1.private.linear.bias"} <= set(alone.state())


@pytest.mark.parametrize("batchnorm", ["separate", "update"])
def test_running_statistics_of_a_residual_module_follow_the_policy(batchnorm: str) -> None:
    own = scheduled(*RESIDUAL.split(), f"policy.batchnorm={batchnorm}", "policy.p=1.0")
    loop, diary = trained(own, [0])
    passes = (2 + 2 + 1) * len(diary.metrics)  # two updates of two passes, one judgement
    unlabelled = sum(float(metrics["unlabelled"][0]) * 2 / 50 for metrics in diary.metrics)
    assert unlabelled > 0
    assert isinstance(loop.trainer, Acl)
    tracked = loop.trainer.model.buffers["shared.bn1.num_batches_tracked"]
    assert float(tracked) == passes + (unlabelled if batchnorm == "update" else 0)


def test_memory_is_none_unless_it_is_asked_for_and_runs_without_it_keep_their_names() -> None:
    assert "memory" not in dump(load("acl-digits"))
    assert "memory = 10\n" in dump(load("acl-digits", ["learner.memory=10"]))
    for changes, size in (((), None), (("learner.memory=10",), 10)):
        loop = shared().loop(scheduled("acl", *changes), [0])
        assert isinstance(loop.trainer, Acl)
        found = loop.trainer.training.rehearsal
        assert (None if found is None else found.memory.size) == size


def test_weights_of_all_tasks_are_kept() -> None:
    loop, _ = trained(scheduled("acl", "signal.name=none"), [0])
    names = {name.partition(".")[0] for name in loop.state()}
    assert names == {"model", "task-0", "task-1"}
    theta = weights_of(loop, 0)
    places = loop.trainer.model.places
    for name, value in loop.state().items():
        if name.startswith("task-0."):
            assert torch.equal(value.flatten(1), theta[:, places[name.removeprefix("task-0.")]])
    assert torch.equal(loop.state()["task-1.head.layers.0.bias"], loop.state()["model.head.layers.0.bias"])


@pytest.mark.parametrize(
    ("learner", "cuts"),
    [
        ("acl", (2, 3)),
        ("acl learner.memory=10", (6,)),
        (RESIDUAL, (5,)),
        ("hat", (7,)),
        ("joint", (6, 2)),
        ("a-gem", (5,)),
    ],
)
@pytest.mark.parametrize("device", EITHER_DEVICE)
@pytest.mark.usefixtures("deterministic")
def test_a_run_that_is_killed_in_the_middle_of_an_epoch_goes_on_to_the_same_bytes(
    learner: str, cuts: tuple[int, ...], device: str, tmp_path: Path
) -> None:
    own = scheduled(*learner.split(), "schedule.epochs=2", "stream.batch=80", "policy.batch=80")
    spec = Spec(name="cut", seeds=[3, 5], rows=[Row(name="run", label="x", setting=own)])
    scene = Scene(tmp_path, device)
    whole = scene.train(spec, "whole")
    assert whole is not None
    assert set(whole) >= {"seed-3/metrics.jsonl", "seed-5/weights.safetensors", "seed-5/accuracy.csv"}
    for cut in cuts:
        assert scene.train(spec, "parts", Safety(0, 1), cut) is None
    assert scene.train(spec, "parts", Safety(0, 1)) == whole


def test_a_whole_run_is_stored_measured_and_reported(tmp_path: Path) -> None:
    small = [change for change in TINY if not change.startswith("stream")]
    spec = load("acl-digits", [*small, "stream.batch=50", "seeds=[0]", "learner.updates=1"])
    directory, (base, *others) = run(spec, out=tmp_path, device="cpu")
    assert [result.name for result in others] == ["predicted"]
    matrix = base.matrices[0]
    assert matrix[0].tolist() == [0.2, 0.2]
    assert matrix[1, 1] == 0.2  # not over: guessed
    assert base.measures[0].fwt == 0
    assert base.measures[0].bwt == matrix[2, 0] - matrix[1, 0]
    assert others[0].paired is not None
    text = (directory.path / "report.md").read_text()
    assert "| ACL + predicted gradients | task told " in text
    assert "(features.png)" in text
    assert (directory.path / "features.png").stat().st_size > 10_000
    assert all(read_feature_map(directory, row, 0) is not None for row in ("base", "predicted"))
    facts = json.loads((directory.path / "base" / "stream.json").read_text())
    assert facts["class_order"] == "numpy.random.RandomState(seed).permutation(10)"
    assert run(spec, out=tmp_path, device="cpu")[1][0].matrices.tolist() == base.matrices.tolist()


def test_finished_rows_of_a_progressive_network_forget_nothing(tmp_path: Path) -> None:
    own = scheduled("pnn", "signal.name=none", "schedule.epochs=2")
    spec = Spec(name="pnn", seeds=[0, 1], rows=[Row(name="run", label="x", setting=own)])
    (result,) = run(spec, out=tmp_path, device="cpu")[1]
    assert [measures.bwt for measures in result.measures] == [0.0, 0.0]


def averaged_loop(seeds: tuple[int, ...] = (3, 4), spec: PlateauSpec = SHORT, steps: int = 4) -> Loop:
    made = finetune_loop(seeds, spec)
    average = Average(made.trainer.model, steps)
    schedule = Plateau(made.data, made.trainer, spec, batch=8, lr=0.05, average=average)
    return Loop(made.data, made.trainer, schedule, made.tests, average=average)


def test_an_average_is_validated_kept_and_evaluated_and_every_task_goes_on_from_it() -> None:
    loop, diary = averaged_loop(), Diary()
    loop.run([diary])
    assert loop.average is not None
    assert isinstance(loop.schedule, Plateau)
    kept = loop.schedule.best.kept["theta"]
    assert torch.equal(loop.trainer.model.theta, kept)
    assert torch.equal(loop.average.theta, kept)
    validation = mean_loss(loop.data, loop.trainer.loss, [loop.data.validation(1)], loop.schedule.spec.validation_batch)
    told = torch.stack([each["validation_loss"] for each in diary.metrics[6:] if "validation_loss" in each])
    torch.testing.assert_close(validation["loss"], told.min(0).values)
    plain, other = finetune_loop(), Diary()
    plain.run([other])
    assert torch.equal(diary.metrics[0]["loss"], other.metrics[0]["loss"])
    assert not torch.equal(diary.metrics[2]["validation_loss"], other.metrics[2]["validation_loss"])


def test_an_average_of_replicas_that_start_anew_starts_anew_too() -> None:
    spec = PlateauSpec(epochs=5, above_chance=1.0)
    loop, seen = averaged_loop(spec=spec), list[tuple[Tensor, Tensor]]()

    def look(position: Position) -> None:
        assert loop.average is not None
        seen.append((loop.average.theta.clone(), loop.trainer.model.theta.clone()))

    original = loop.schedule._restart_average  # type: ignore[attr-defined]

    def restarted(which: Tensor) -> None:
        original(which)
        look(Position())

    loop.schedule._restart_average = restarted  # type: ignore[attr-defined]
    loop.run([])
    assert len(seen) == 4  # the reset in the fifth epoch and the end, in both tasks
    assert all(torch.equal(*both) for both in seen)


@pytest.mark.parametrize("cut", [2, 7])
def test_a_run_with_an_average_goes_on_to_the_same_bits(cut: int) -> None:
    whole, again, diary, rest = cut_and_gone_on(averaged_loop, cut)
    assert torch.equal(again.trainer.model.theta, whole.trainer.model.theta)
    assert torch.equal(rest.rows[-1], diary.rows[-1])
