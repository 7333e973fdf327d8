import pytest
import torch

from gradcast.replicas.replicas import Replicas
from gradcast.signals.mean_teacher import MeanTeacher
from tests.helpers import replicas
from tests.replicas.test_replicas import own_module
from tests.signals.scene import scene


def small_model(first_seed: int = 0) -> Replicas:
    return replicas(2, norm="batch", first_seed=first_seed)


def test_the_teacher_begins_as_the_model_and_averages_all_steps_then_the_latest() -> None:
    model, at = small_model(), scene(views=2)
    part = MeanTeacher(small_model(5), model, ema=0.75)
    assert torch.equal(part.teacher.theta, model.theta)
    weights, statistics = [model.theta.clone()], [model.buffers["layers.1.running_mean"].clone()]
    for step in range(1, 6):
        model.theta += torch.randn_like(model.theta)
        model.buffers["layers.1.running_mean"] += 1
        model.buffers["layers.1.num_batches_tracked"] += 1
        weights.append(model.theta.clone())
        statistics.append(model.buffers["layers.1.running_mean"].clone())
        part.prepare(at.batch, at.unlabelled if step % 2 else None)
        part.end(model)
        if step <= 3:
            torch.testing.assert_close(part.teacher.theta, torch.stack(weights).mean(0))
    for kept, found in ((weights, part.teacher.theta), (statistics, part.teacher.buffers["layers.1.running_mean"])):
        expected = torch.stack(kept[:4]).mean(0)
        for late in kept[4:]:
            expected = 0.75 * expected + 0.25 * late
        torch.testing.assert_close(found, expected)
    assert part.teacher.buffers["layers.1.num_batches_tracked"].tolist() == [5, 5]


def test_the_model_is_drawn_to_what_the_teacher_says_of_the_other_view() -> None:
    at = scene(norm="batch", images=4, views=2)
    part = MeanTeacher(scene(norm="batch").model, at.model, weight=3.0)
    part.teacher.theta += 0.1
    part.look(at.preview)
    z = torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True)
    slopes, told = part.slopes(at.model, z.detach(), at.unlabelled.first_view(), 1)
    for replica in range(2):
        says = own_module(part.teacher, replica).eval()(at.unlabelled.x[replica, 4:])[:, 3:].softmax(-1).detach()
        loss = (z[replica].softmax(-1) - says).square().sum(-1).mean()
        torch.testing.assert_close(slopes[replica], 3.0 * torch.autograd.grad(loss, z)[0][replica])
        assert float(told["signal_loss"][replica]) == pytest.approx(float(loss.detach()))
    assert part.ramped


def test_it_is_one_more_network_which_is_evaluated_and_part_of_what_is_stored() -> None:
    model = small_model()
    part = MeanTeacher(small_model(), model)
    assert part.networks() == (part.teacher,)
    assert part.evaluated() is part.teacher
    assert set(part.state()) == {f"average.{name}" for name in (*model.names, *model.buffers)}
