import torch

from gradcast.replicas.heads import Heads
from gradcast.replicas.replicas import Replicas
from gradcast.training.average import Average
from tests.helpers import batch, replicas


def walk(model: Replicas, average: Average, count: int) -> list[torch.Tensor]:
    """Weights after each of some random steps."""
    generator, seen = torch.Generator().manual_seed(3), []
    for _ in range(count):
        model.theta.add_(torch.randn(model.theta.shape, generator=generator, dtype=model.theta.dtype))
        model.forward(batch(model, seed=5).x, 0)  # running statistics move
        average.follow(model)
        seen.append(model.theta.clone())
    return seen


def test_at_first_all_steps_count_alike_and_the_initial_weights_do_not() -> None:
    model = replicas(2, sizes=(6, 5, 3), heads=Heads.even(3))
    average = Average(model, 10)
    torch.testing.assert_close(torch.stack(walk(model, average, 7)).mean(0), average.theta)


def test_later_each_step_has_its_share() -> None:
    model = replicas(2, sizes=(6, 5, 3), heads=Heads.even(3))
    average = Average(model, 4)
    seen = walk(model, average, 9)
    expected = torch.stack(seen[:4]).mean(0)
    for theta in seen[4:]:
        expected = 0.75 * expected + 0.25 * theta
    torch.testing.assert_close(expected, average.theta)


def test_running_statistics_are_averaged_and_counters_are_not() -> None:
    model = replicas(2, sizes=(6, 5, 3), heads=Heads.even(3), norm="batch")
    average, means = Average(model, 100), []
    for _ in range(3):
        walk(model, average, 1)
        means.append({name: buffer.clone() for name, buffer in model.buffers.items()})
    counters = [name for name, buffer in model.buffers.items() if not buffer.is_floating_point()]
    assert counters
    for name in model.buffers:
        if name in counters:
            assert torch.equal(average.buffers[name], model.buffers[name])
        else:
            torch.testing.assert_close(average.buffers[name], torch.stack([each[name] for each in means]).mean(0))


def test_the_model_shows_it_and_goes_on_with_its_own() -> None:
    model = replicas(2, sizes=(6, 5, 3), heads=Heads.even(3), norm="batch")
    average = Average(model, 5)
    walk(model, average, 6)
    own, place = [model.theta.clone(), *(b.clone() for b in model.buffers.values())], model.theta.data_ptr()
    with average.shown(model):
        assert torch.equal(model.theta, average.theta)
        assert not torch.equal(model.theta, own[0])
        assert all(torch.equal(model.buffers[name], mean) for name, mean in average.buffers.items())
    assert all(map(torch.equal, [model.theta, *model.buffers.values()], own))
    assert model.theta.data_ptr() == place
