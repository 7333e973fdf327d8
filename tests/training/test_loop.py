"""The loop: order of events, resuming, divergence, averages, and every learner under schedules without validation."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from gradcast.core import Batch, Feeds, Metrics
from gradcast.data.digits import digits
from gradcast.devices import Place
from gradcast.errors import GradcastError
from gradcast.gradients.gradient import Gradient
from gradcast.learners.acl.acl import Acl
from gradcast.learners.agem import Agem
from gradcast.learners.der import Der
from gradcast.learners.er import Er
from gradcast.learners.finetune import Finetune
from gradcast.learners.gem import Gem
from gradcast.networks.mlp import MLP
from gradcast.replicas.heads import Heads
from gradcast.replicas.replicas import Replicas
from gradcast.specs.spec import Setting
from gradcast.streams.scenarios import rotated
from gradcast.streams.stream import Stream
from gradcast.streams.task_data import TaskData
from gradcast.training.average import Average
from gradcast.training.evaluate import SharedTests
from gradcast.training.loop import Extent, Loop, Position, ShownImages
from gradcast.training.schedules import Constant
from gradcast.training.step import Step
from gradcast.training.trainer import StepTrainer
from tests.helpers import CPU
from tests.specs.test_combinations import prepared
from tests.specs.test_combinations import setting as combination
from tests.training.scene import Diary, Notebook, cut_and_gone_on, shared, weights_of

PLACE = Place(CPU, torch.float32)


def loop(
    lr: float = 0.1,
    seeds: tuple[int, ...] = (3, 4),
    *,
    step: Step | None = None,
    batch: int = 10,
    labels: int | None = None,
) -> Loop:
    tasks, facts = rotated(digits(0), 2, 0)
    stream = Stream(tasks, (1, 8, 8), facts, samples=30 if labels is None else None, labels=labels)
    model = Replicas([MLP([64, 20, 10]) for _ in seeds], Heads.even(10), device=CPU, dtype=torch.float32)
    data = TaskData(stream, seeds, PLACE)
    tests = SharedTests([stream.test(task) for task in range(2)], stream.scale, drop_last=False, place=PLACE)
    trainer = StepTrainer(step or Step(model, Finetune(), lr))
    return Loop(data, trainer, Constant(data, batch=batch, epochs=1, lr=lr), tests)


def step_of(own: Loop) -> Step:
    assert isinstance(own.trainer, StepTrainer)
    return own.trainer.update


def test_evaluates_before_training_and_after_each_task() -> None:
    diary = Diary()
    loop().run([diary])
    assert diary.entries == [
        "evaluated after 0",
        "step 0 task 0",
        "step 1 task 0",
        "step 2 task 0",
        "trained task 0",
        "evaluated after 1",
        "step 3 task 1",
        "step 4 task 1",
        "step 5 task 1",
        "trained task 1",
        "evaluated after 2",
    ]
    assert all(row.shape == (2, 2) for row in diary.rows)
    assert not torch.equal(diary.rows[0], diary.rows[1])


def test_a_keeper_hears_of_positions_before_steps_and_of_task_ends() -> None:
    saved = list[Position]()
    loop().run([], Notebook([1, 3, 5], saved.append))
    assert saved == [Position(0, 1, 1), Position(1, 0, 3), Position(1, 0, 3), Position(1, 2, 5)]


def test_a_run_goes_on_where_the_keeper_says() -> None:
    diary = Diary()
    loop().run([diary], Notebook([], lambda position: None, Position(1, 1, 4)))
    assert diary.entries == ["step 4 task 1", "step 5 task 1", "trained task 1", "evaluated after 2"]


def test_a_loss_that_is_not_finite_stops_and_names_step_task_and_seed() -> None:
    class Breaking(Step):
        def advance(self, batch: Batch, unlabelled: Feeds) -> Metrics:
            return super().advance(batch, unlabelled) | {"finite": torch.tensor([True, batch.task == 0])}

    broken = Breaking(loop(seeds=(3, 8)).trainer.model, Finetune(), 0.1)
    diary = Diary()
    with pytest.raises(GradcastError, match=r"are not finite at step 3 \(task 1, seed 8\).*lower learner\.lr"):
        loop(seeds=(3, 8), step=broken).run([diary])
    assert diary.entries[-1] == "step 5 task 1"  # looked at when the task ends, before its evaluation


def test_steps_that_are_not_finite_may_be_skipped_until_nothing_else_is_left() -> None:
    once, always = loop(seeds=(3, 8)), loop(seeds=(3, 8), batch=1)  # 30 steps a task
    spoiled = torch.full_like(once.trainer.model.theta, torch.nan)

    class Breaking(Finetune):
        def __init__(self, steps: set[int]) -> None:
            self.steps, self.count = steps, -1

        def constrain(self, gradient: Gradient) -> tuple[Tensor, Tensor]:
            self.count += 1
            flat, projected = super().constrain(gradient)
            return (spoiled if self.count in self.steps else flat), projected

    for running, steps in ((once, {1}), (always, set(range(1, 100)))):
        step_of(running).learner, step_of(running).skips = Breaking(steps), True
    diary = Diary()
    with pytest.warns(
        UserWarning, match=r"not finite at step 1 \(task 0, seed 3\): 2 of the latest 6 steps were undone"
    ):
        once.run([diary])
    assert diary.entries[-1] == "evaluated after 2"
    assert torch.isfinite(once.trainer.model.theta).all()
    with pytest.raises(GradcastError, match=r"not finite at step 1 .*diverged"):  # though the first look saw a good one
        always.run([])


def test_divergence_is_noticed() -> None:
    with pytest.raises(GradcastError, match="diverged"):
        loop(lr=1e30).run([])


def test_an_average_is_evaluated_and_does_not_change_the_training() -> None:
    plain, averaged, last = loop(), loop(), loop()
    with torch.no_grad():
        for other in (averaged, last):
            other.trainer.model.theta.copy_(plain.trainer.model.theta)
    rows = [Diary(), Diary()]
    averaged = replace(averaged, average=Average(averaged.trainer.model, 3))
    plain.run([rows[0]])
    averaged.run([rows[1]])
    assert torch.equal(plain.trainer.model.theta, averaged.trainer.model.theta)
    assert torch.equal(rows[0].rows[0], rows[1].rows[0])  # before the first step there is nothing to average
    assert averaged.average is not None
    last.trainer.model.theta.copy_(averaged.average.theta)
    assert torch.equal(last.tests(last.trainer, range(2)), rows[1].rows[-1])
    assert not torch.equal(rows[0].rows[-1], rows[1].rows[-1])


def test_the_extent_counts_every_batch() -> None:
    own = loop(batch=7).extent
    assert own == Extent((5, 5))
    assert (own.steps, own.before(1)) == (10, 5)


def test_learners_are_shown_a_tasks_images_as_they_come_first() -> None:
    own, seen = loop(), list[Tensor]()

    class Watching(Finetune):
        def prepare(self, model: Replicas, batch: Batch) -> None:
            seen.append(batch.x.clone())

    step_of(own).learner = Watching()
    own.run([])
    for task in range(2):
        shown = ShownImages(own, task)
        found = [batch.x for batch in shown.batches(7)]
        assert [x.shape[1] for x in found] == [7, 7, 7, 7, 2]
        assert torch.equal(torch.cat(found, 1), torch.cat(seen[3 * task : 3 * task + 3], 1))


def test_with_few_labels_it_is_stored_which_images_had_one() -> None:
    own = loop(labels=20)
    found = own.state()
    for task in range(2):
        expected = np.stack([own.data.stream.labelled(task, seed) for seed in (3, 4)])
        assert found[f"labelled-{task}"].tolist() == expected.tolist()
    assert not any(name.startswith("labelled") for name in loop().state())


BASE = {
    "stream": {"source": "digits", "scenario": "split", "tasks": 2, "classes_per_task": 2, "samples": 30, "batch": 8},
    "model": {"name": "mlp", "hidden": [6]},
}
SMALL = {"name": "alexnet-like", "latent": 6, "widths": [6], "channels": [2, 2, 2]}
ROTATED = {"source": "digits", "scenario": "rotated", "tasks": 2, "samples": 30, "batch": 8}
STEPS = {"name": "steps", "steps": 6, "warm_up": 2, "milestones": [5], "ramp": 2, "test_every": 3}


def setting(
    learner: str, *, schedule: dict[str, object] | None = None, labels: int | str = "all", **own: object
) -> Setting:
    big = learner in ("acl", "hat", "pnn")
    small = {"updates": 1, "private_width": 2, "head_units": 4, "discriminator_units": 5} if learner == "acl" else {}
    stream = (
        (ROTATED if learner == "multimodal" else BASE["stream"])
        | {"epochs": 1 if schedule else 2, "labels": labels}
        | ({"size": 12} if big else {})
    )
    return Setting.model_validate(
        {
            "stream": stream,
            "model": SMALL if big else BASE["model"],
            "learner": {"name": learner, **small, **own},
            **({"schedule": schedule} if schedule else {}),
        }
    )


OWN_FORMS: dict[str, dict[str, object]] = {
    "online": {"form": "online", "interval": 2},
    "augmented": {"repeats": 2, "augment": ["shift", "flip"]},
    "shifted": {"memory": 10, "augment": ["shift", "flip"]},
}


@pytest.mark.parametrize("name", ["gem", "er", "a-gem", "der"])
@pytest.mark.parametrize("labels", ["all", 20])
def test_memories_store_every_image_once_however_often_a_task_is_passed_through(name: str, labels: int | str) -> None:
    once: dict[str, object] = {"store": "first"} if name == "der" else {}  # by default it stores in every epoch
    own = shared().loop(setting(name, labels=labels, memory=60, **once), [3, 4])
    own.run([])
    learner, count = step_of(own).learner, own.data.count(0)
    assert count == (30 if labels == "all" else 20)
    if isinstance(learner, Gem):
        assert [learner.memory.fill(task) for task in range(2)] == [count] * 2
        assert learner.memory.x is not None
        first = learner.memory.x[:, 0, :count]
    elif isinstance(learner, Er | Der):
        assert set(learner.memory.seen.tolist()) == {2 * count}
        first = learner.memory.filled["x"][:, :count]
    else:
        assert isinstance(learner, Agem)
        assert learner.memory.counts is not None
        assert learner.memory.counts.sum(2).tolist() == [[count] * 2] * 2
        first = learner.memory.all_of(0).x
    for replica in range(2):
        assert len({image.numpy().tobytes() for image in first[replica]}) == count


@pytest.mark.parametrize("name", ["hat", "acl", "pnn", "independent", "multimodal"])
@pytest.mark.parametrize("schedule", [None, STEPS])
def test_modules_of_a_task_train_without_validation_too_and_every_replica_as_alone(
    name: str, schedule: dict[str, object] | None
) -> None:
    made = setting(name, schedule=schedule)
    together, both = shared().loop(made, [3, 4]), Diary()
    alone, single = shared().loop(made, [4]), Diary()
    together.run([both])
    alone.run([single])
    steps = 12 if schedule else 16
    assert len(both.metrics) == steps
    for then, now in zip(both.metrics, single.metrics, strict=True):
        torch.testing.assert_close(then["loss"][1], now["loss"][0], rtol=1e-3, atol=1e-4)
    for task in range(2):
        torch.testing.assert_close(weights_of(together, task)[1], weights_of(alone, task)[0], rtol=1e-2, atol=1e-3)
    if name not in ("pnn", "independent"):
        chance = 0.1 if name == "multimodal" else 0.5
        assert both.rows[0].tolist() == [[chance] * 2] * 2  # tasks that have no weights yet count as guessed
        assert both.rows[1][:, 1].tolist() == [chance] * 2
        assert {"task-0", "task-1"} <= {key.partition(".")[0] for key in together.state()}


@pytest.mark.parametrize(
    "name",
    [
        "hat",
        "acl",
        "gem",
        "er",
        "a-gem",
        "der",
        "der-plus-plus",
        "ewc",
        "ewc online",
        "er augmented",
        "er-ace",
        "lwf",
        "hal",
        "bic",
        "lucir",
        "icarl-original",
        "cfa",
        "x-der",
        "x-der shifted",
        "mas",
        "joint",
        "independent",
        "multimodal",
    ],
)
@pytest.mark.parametrize("schedule", [None, STEPS])
def test_a_run_that_is_cut_anywhere_goes_on_to_the_same_bits(name: str, schedule: dict[str, object] | None) -> None:
    own: dict[str, object] = {"memory": 10} if name in ("gem", "er", "a-gem", "der", "ewc", "bic", "cfa") else {}
    name, *form = name.split()
    own = OWN_FORMS[form[0]] if form else own
    made = setting(name, schedule=schedule, **own)
    for cut in (5, 9):
        whole, again, diary, rest = cut_and_gone_on(lambda: shared().loop(made, [3, 4]), cut)
        assert torch.equal(again.trainer.model.theta, whole.trainer.model.theta)
        assert torch.equal(rest.rows[-1], diary.rows[-1])
        assert rest.entries == diary.entries[-len(rest.entries) :]


def test_the_slope_of_gates_rises_through_a_pass_or_through_the_whole_course() -> None:
    for schedule, length in ((None, 4), (STEPS, 6)):
        own, slopes = shared().loop(setting("hat", schedule=schedule), [3]), list[float]()
        step = step_of(own)
        original = step.learner.begin

        def begin(model: Replicas, batch: Batch, original: object = original, slopes: list[float] = slopes) -> None:
            slopes.append(float(model.buffers["slope"][0]))
            original(model, batch)  # type: ignore[operator]

        step.learner.begin = begin  # type: ignore[method-assign]
        own.run([])
        first = slopes[:length]
        assert first == sorted(first)
        assert first[0] < 0.01
        assert first[-1] == pytest.approx(400.0)
        assert slopes[length : 2 * length] == first


def test_acl_learns_its_discriminator_without_validation() -> None:
    own = shared().loop(setting("acl"), [3])
    assert isinstance(own.trainer, Acl)
    own.trainer.begin(ShownImages(own, 0))
    before = [weight.clone() for weight in own.trainer.discriminator.weights]
    own.schedule.begin(0)
    turn = next(own.schedule.turns(0, 0))
    told = own.trainer.step(own.schedule.order.batch(0), tuple, turn)
    assert {"discriminator_loss", "adversarial", "orthogonality"} <= told.keys()
    assert not any(map(torch.equal, before, own.trainer.discriminator.weights))


def test_averages_of_modules_that_a_task_owns_begin_with_the_task() -> None:
    own = combination("hat", "none", "constant", "all")
    averaged = own.model_copy(update={"evaluation": own.evaluation.model_copy(update={"average": 1000})})
    loop = prepared().loop(averaged, [0, 1])
    loop.run([])
    modules = loop.trainer.modules  # type: ignore[attr-defined]
    assert loop.average is not None
    assert torch.equal(modules.own[1], loop.average.theta[:, modules.alone])  # set aside as it was evaluated
    assert not torch.equal(modules.own[1], loop.trainer.model.theta[:, modules.alone])
