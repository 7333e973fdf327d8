import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from gradcast.core import Batch, Feeds, Metrics, TaskImages
from gradcast.gradients.sgd import Sgd
from gradcast.learners.agem import Agem
from gradcast.learners.er import Er
from gradcast.learners.finetune import Finetune
from gradcast.memories.by_class import ClassMemory
from gradcast.memories.reservoir import Reservoir
from gradcast.replicas.heads import Heads
from gradcast.replicas.replicas import Replicas
from gradcast.signals.mean_teacher import MeanTeacher
from gradcast.signals.pseudo import Attached
from gradcast.streams.orders import Epochs
from gradcast.training.step import Step
from gradcast.training.trainer import StepTrainer, Trainer, Turn
from tests.helpers import batch, flat, replicas
from tests.learners.acl.scene import CLASSES, SIDE, TaskOf
from tests.replicas.test_replicas import own_module
from tests.training.scene import epoch, task_data


def finetune(model: Replicas, **options: float) -> StepTrainer:
    return StepTrainer(Step(model, Finetune(), 0.0, sgd=Sgd(**options)), restarts=True)


def nothing() -> Feeds:
    return ()


def train(trainer: StepTrainer, data: Batch, lr: Tensor, turn: tuple[int, int, int]) -> Metrics:
    task, number, place = turn
    return trainer.step(data, nothing, Turn(task, place, number, place, lr))


LR = torch.tensor([0.1, 0.0], dtype=torch.float64)


def test_steps_are_those_of_torchs_own_optimizer() -> None:
    model = replicas(2)
    learner = finetune(model, momentum=0.9, decay=0.01)
    alone = own_module(model, 0)
    optimizer = torch.optim.SGD(alone.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)
    start = model.theta[1].clone()
    learner.begin(TaskOf(0))
    for number in range(4):
        data = batch(model, seed=number)
        train(learner, data, LR, (0, 0, number))
        optimizer.zero_grad()
        cross_entropy(alone(data.x[0]), data.y[0]).backward()
        optimizer.step()
    torch.testing.assert_close(model.theta[0], flat(alone), rtol=1e-10, atol=1e-12)
    assert torch.equal(model.theta[1], start)
    assert isinstance(learner, Trainer)
    assert learner.weights_for(0) is None


def test_loss_and_hits_are_those_of_the_batch() -> None:
    model = replicas(2)
    data = batch(model, size=6)
    found = finetune(model).loss(data)
    for replica in range(2):
        z = own_module(model, replica)(data.x[replica])
        torch.testing.assert_close(
            found["loss"][replica], torch.nn.functional.cross_entropy(z, data.y[replica]).detach()
        )
        assert found["hits"][replica] == (z.argmax(1) == data.y[replica]).sum()


def test_a_restart_goes_back_to_the_tasks_beginning() -> None:
    model = replicas(2)
    learner, both = finetune(model, momentum=0.9), torch.tensor([0.1, 0.1], dtype=torch.float64)
    which = torch.tensor([True, False])

    def once(data: Batch) -> None:
        train(learner, data, both, (0, 0, 0))

    learner.begin(TaskOf(0))
    once(batch(model))
    learner.begin(TaskOf(1))
    start = model.theta.clone()
    once(batch(model, seed=1))
    trained = model.theta.clone()
    learner.restart(which, "reference")
    assert torch.equal(model.theta[0], start[0])
    assert torch.equal(model.theta[1], trained[1])
    once(batch(model, seed=2))
    assert torch.equal(model.theta[0], start[0])
    assert not torch.equal(model.theta[1], trained[1])
    learner.renew(which)
    once(batch(model, seed=2))
    assert not torch.equal(model.theta[0], start[0])


@pytest.mark.parametrize("every", [False, True])
def test_memories_take_a_tasks_images_in_its_first_epoch_or_in_every_one(every: bool) -> None:
    own = task_data((3, 4))
    model = replicas(2, sizes=(SIDE * SIDE, 2 * CLASSES), heads=Heads.even(CLASSES, 2, masked=True))
    er = Er(Reservoir(100, [3, 4]), 5, every=every)
    learner, order = StepTrainer(Step(model, er, 0.0)), Epochs(own, 8)
    for task in range(2):
        learner.begin(TaskOf(task))
        order.begin(task)
        for number in range(9):
            train(learner, order.batch(number), LR, (task, number // 3, number % 3))
    assert er.memory.seen == (3 if every else 1) * 2 * own.count(0)
    if not every:
        assert er.memory.filled["tasks"].sum(1).tolist() == [own.count(0)] * 2


def test_replayed_images_join_the_mean_and_what_opposes_earlier_tasks_is_taken_from_the_gradient() -> None:
    """ER and A-GEM with momentum, by hand: one replica, what was drawn, torch's own optimizer."""
    for kind in ("er", "a-gem"):
        heads = Heads.even(CLASSES, 2, masked=True)
        model = replicas(1, sizes=(SIDE * SIDE, 7, 2 * CLASSES), heads=heads)
        own, rates = task_data((3,)), torch.tensor([0.05], dtype=torch.float64)
        er, agem = Er(Reservoir(100, [3]), 5), Agem(ClassMemory(Heads.even(CLASSES, 2), 12, seeds=[3]), 8)
        inner = er if kind == "er" else agem
        learner = StepTrainer(Step(model, inner, 0.0, sgd=Sgd(momentum=0.9)))
        learner.begin(TaskOf(0))
        for data in epoch(own, 0, 0, 8):
            train(learner, data, rates, (0, 0, 0))
        learner.begin(TaskOf(1))
        alone = own_module(model, 0)
        optimizer, projected = torch.optim.SGD(alone.parameters(), lr=0.05, momentum=0.9), 0
        for number, data in enumerate(epoch(own, 1, 0, 8)):
            train(learner, data, rates, (1, 0, number))
            drawn = inner.drawn
            assert drawn is not None

            def loss(x: Tensor, y: Tensor, tasks: Tensor, alone: nn.Module = alone) -> Tensor:
                columns = alone(x).unflatten(1, (2, CLASSES))
                return cross_entropy(columns[torch.arange(len(y)), tasks], y, reduction="none")

            optimizer.zero_grad()
            now = loss(data.x[0], data.y[0], torch.ones_like(data.y[0]))
            then = loss(drawn.x[0], drawn.y[0], drawn.tasks[0])
            if kind == "er":
                torch.cat([now, then]).mean().backward()
            else:
                weights = list(alone.parameters())
                found = [torch.autograd.grad(part.mean(), weights) for part in (now, then)]
                g, ref = (torch.cat([part.flatten() for part in parts]) for parts in found)
                if g @ ref < 0:
                    g, projected = g - (g @ ref) / (ref @ ref) * ref, projected + 1
                for weight, part in zip(weights, g.split([w.numel() for w in weights]), strict=True):
                    weight.grad = part.view_as(weight)
            optimizer.step()
        torch.testing.assert_close(model.theta[0], flat(alone), rtol=1e-9, atol=1e-11)
        assert kind == "er" or projected > 0


def test_steps_are_named_by_their_number_or_by_task_epoch_and_place() -> None:
    turn = Turn(1, 5, 2, 1, 0.1)
    assert (turn.name(), turn.name("judgement 0")) == ("1/2/1/0", "1/2/1/judgement 0")
    model, heard = replicas(2), list[object]()
    learner = finetune(model)
    model.chance.begin = heard.append  # type: ignore[method-assign, assignment]
    learner.step(batch(model), nothing, turn)
    learner.step(batch(model), nothing, Turn(1, 6, 2, 2, 0.1, numbered=True))
    assert heard == ["1/2/1/0", 1]


def test_what_a_signal_offers_is_evaluated_validated_and_kept_beside_the_model() -> None:
    model = replicas(2, norm="batch")
    teacher = MeanTeacher(replicas(2, norm="batch"), model)
    learner = StepTrainer(Step(model, Finetune(), 0.1, [Attached(teacher)], sgd=Sgd()))
    teacher.teacher.theta += 1
    assert learner.evaluated is teacher.teacher
    kept = learner.trained()
    assert torch.equal(kept["theta"], model.theta)
    assert torch.equal(kept["evaluated theta"], teacher.teacher.theta)
    assert "evaluated layers.1.running_mean" in kept
    plain = StepTrainer(Step(teacher.teacher, Finetune(), 0.1))
    assert torch.equal(learner.loss(batch(model))["loss"], plain.loss(batch(model))["loss"])
    assert plain.evaluated is plain.model
    assert set(plain.trained()) == {"theta", *model.buffers}


def test_a_learner_hears_of_tasks_and_its_terms_count_in_validation() -> None:
    class Listening(Finetune):
        def __init__(self) -> None:
            self.heard: list[str] = []

        def task_begins(self, model: Replicas, images: TaskImages) -> None:
            self.heard.append(f"begins {images.task}")

        def task_ends(self, model: Replicas, images: TaskImages) -> None:
            self.heard.append(f"ends {images.task}")

        def penalty(self, model: Replicas) -> Tensor:
            return torch.tensor([1.0, 2.0], dtype=torch.float64)

        def trains_from(self, task: int) -> int:
            return max(task - 1, 0)

    model, own = replicas(2), Listening()
    learner = StepTrainer(Step(model, own, 0.1))
    for task in range(2):
        learner.begin(TaskOf(task))
        learner.finish(TaskOf(task))
    assert own.heard == ["begins 0", "ends 0", "begins 1", "ends 1"]
    more = learner.loss(batch(model))["loss"] - finetune(model).loss(batch(model))["loss"]
    torch.testing.assert_close(more, torch.tensor([1.0, 2.0], dtype=torch.float64))
    assert learner.judged_by(2) == range(1, 3)
    assert not learner.by_task
