import pytest
import torch
from torch.nn.functional import cosine_similarity, cross_entropy

from gradcast.gradients.length import Length
from gradcast.learners.gem import Gem
from gradcast.memories.ring import TaskMemory
from gradcast.replicas.heads import Heads
from gradcast.replicas.replicas import Replicas
from gradcast.signals.pseudo import Attached
from gradcast.signals.pseudo_labels import PseudoLabels
from gradcast.training.step import Step
from tests.helpers import batch, replicas
from tests.replicas.test_replicas import loss_gradient, own_module
from tests.signals.scene import scene


def teacher(norm: str = "none") -> Replicas:
    return replicas(2, heads=Heads.even(3, 2, masked=True), norm=norm, first_seed=10)  # type: ignore[arg-type]


@pytest.mark.parametrize("soft", [True, False])
@pytest.mark.parametrize("norm", ["none", "batch"])
def test_the_gradient_is_that_of_cross_entropy_with_the_teachers_labels(soft: bool, norm: str) -> None:
    at, signal = scene(norm=norm), PseudoLabels(teacher(norm), soft=soft, weight=0.7)
    found = at.gradient(signal)
    for replica in range(2):
        student, told = own_module(at.model, replica).train(), own_module(signal.teacher, replica).eval()
        x = at.unlabelled.x[replica]
        s = told(x)[:, 3:].detach()
        loss = 0.7 * cross_entropy(student(x)[:, 3:], s.softmax(1) if soft else s.argmax(1))
        gradients = torch.autograd.grad(loss, list(student.parameters()))
        torch.testing.assert_close(found[replica], torch.cat([gradient.flatten() for gradient in gradients]))


def test_with_a_length_every_row_has_it() -> None:
    at, signal = (
        scene(linear=True, images=1),
        PseudoLabels(
            replicas(2, sizes=(6, 3), heads=Heads.even(3, 2, masked=True), first_seed=10),
            soft=False,
            length=Length(0.5),
        ),
    )
    tau = at.learn(signal)["tau"]
    found = at.gradient(signal)[:, 36:]  # of one image, the gradient of the bias is the logit gradient
    torch.testing.assert_close(found.norm(dim=1), 0.5 * tau)
    assert not found[:, :3].any()


def test_the_teacher_learns_labels_as_plain_sgd_does() -> None:
    at, signal = scene(), PseudoLabels(teacher(), soft=False)
    before = signal.teacher.theta.clone()
    heads = [own_module(signal.teacher, r) for r in range(2)]
    student = at.model.forward(at.batch.x, 1).z
    metrics = at.learn(signal)
    for replica, module in enumerate(heads):
        x, y = at.batch.x[replica], at.batch.y[replica]
        gradient = loss_gradient(module, x, y, slice(3, 6))
        torch.testing.assert_close(signal.teacher.theta[replica], before[replica] - 0.1 * gradient)
        labels = module(x)[:, 3:].argmax(1)
        assert metrics["label_accuracy"][replica] == (labels == y).double().mean()
        rows = []
        for target in (y, labels):
            z = student[replica].detach().requires_grad_()
            rows.append(torch.autograd.grad(cross_entropy(z, target), z)[0])
        torch.testing.assert_close(metrics["cosine"][replica], cosine_similarity(*rows, dim=1).mean())


def test_the_teacher_is_one_more_network() -> None:
    signal = PseudoLabels(teacher("batch"), soft=True)
    assert signal.networks() == (signal.teacher,)
    assert set(signal.state()) == {f"teacher.{name}" for name in (*signal.teacher.names, *signal.teacher.buffers)}


@pytest.mark.parametrize("soft", [True, False])
def test_a_teacher_may_choose_among_all_classes_seen(soft: bool) -> None:
    at, signal = scene(), PseudoLabels(teacher(), soft=soft, seen=True)
    found = at.gradient(signal)
    before = [own_module(signal.teacher, replica).eval() for replica in range(2)]
    metrics = at.learn(signal)
    for replica, told in enumerate(before):
        student = own_module(at.model, replica).train()
        x, s = at.unlabelled.x[replica], told(at.unlabelled.x[replica]).detach()
        loss = cross_entropy(student(x), s.softmax(1) if soft else s.argmax(1))  # of both tasks
        gradients = torch.autograd.grad(loss, list(student.parameters()))
        torch.testing.assert_close(found[replica], torch.cat([gradient.flatten() for gradient in gradients]))
        x, y = at.batch.x[replica], at.batch.y[replica] + 3
        guess = told(x).detach()
        assert metrics["label_accuracy"][replica] == (guess.argmax(1) == y).double().mean()
        rows = []
        for target in (y, guess.softmax(1) if soft else guess.argmax(1)):
            z = student(x).detach().requires_grad_()
            rows.append(torch.autograd.grad(cross_entropy(z, target), z)[0])
        torch.testing.assert_close(metrics["cosine"][replica], cosine_similarity(*rows).mean())


def test_in_the_first_task_all_classes_seen_are_the_tasks() -> None:
    at, (one, all_seen) = scene(task=0), (PseudoLabels(teacher(), soft=True, seen=seen) for seen in (False, True))
    torch.testing.assert_close(at.gradient(all_seen), at.gradient(one))


@pytest.mark.parametrize("norm", ["none", "batch"])
def test_a_protected_teacher_learns_as_gem_does(norm: str) -> None:
    """A network of its own, trained by GEM on the same batches, ends at the same weights and statistics."""
    model, gem = scene(norm=norm).model, Gem(TaskMemory(2, 8))
    signal = PseudoLabels(teacher(norm), soft=True, guard=gem.guard())
    step, alone = Step(model, gem, 0.1, [Attached(signal)]), Step(teacher(norm), Gem(TaskMemory(2, 8)), 0.1)
    projected = torch.zeros(2)
    for number in range(12):
        labelled = batch(model, task=number // 6, seed=number)
        step(labelled)
        projected += alone(labelled)["projected"]
    assert projected.all()
    torch.testing.assert_close(signal.teacher.theta, alone.model.theta)
    for name, values in signal.teacher.buffers.items():
        torch.testing.assert_close(values, alone.model.buffers[name])
