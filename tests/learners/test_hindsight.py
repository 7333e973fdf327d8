import torch

from gradcast.gradients.sgd import Sgd
from gradcast.learners.hindsight import Ascent, RunningMeans, stretched
from tests.helpers import batch, replicas


def test_running_means_begin_with_a_first_mean_and_leave_other_groups_alone() -> None:
    means, member = RunningMeans(0.9), torch.tensor([[[1.0, 0.0], [1.0, 0.0]]])
    means.follow(torch.tensor([[[1.0], [3.0]]]), member, None)
    assert means.value is not None
    assert means.value.tolist() == [[[2.0], [0.0]]]
    place = means.value
    means.follow(torch.tensor([[[2.0], [4.0]]]), member.roll(1, 2) * torch.tensor([[[0.0], [1.0]]]), None)
    means.follow(torch.tensor([[[4.0], [4.0]]]), member, None)
    torch.testing.assert_close(means.value, torch.tensor([[[2.2], [4.0]]]))
    assert means.value is place
    means.forget()
    means.follow(torch.tensor([[[5.0], [5.0]]]), member, torch.tensor([[True]]))
    assert means.value.tolist() == [[[5.0], [0.0]]]


def test_ascent_raises_what_would_be_forgotten() -> None:
    model = replicas(2)
    data = batch(model, size=3)
    proxy = model.theta + 0.3 * torch.randn(model.theta.shape, dtype=torch.float64)
    phi = torch.zeros(2, 3, 5, dtype=torch.float64)
    ascent = Ascent(model, proxy, 0, 0.0, lambda features, mean: features.sum(-1))
    found = ascent(data.x, data.y, phi, Sgd(), 0.01)

    def gap(x: torch.Tensor) -> torch.Tensor:
        now, later = (model.forward(x, 0, statistics="frozen", theta=own).z for own in (model.theta, proxy))
        right = (z.log_softmax(-1).gather(-1, data.y.unsqueeze(-1)) for z in (now, later))
        return next(right).sum((1, 2)) - next(right).sum((1, 2))

    assert (gap(found) > gap(data.x)).all()


def test_every_image_is_stretched_by_itself_and_a_flat_one_stays_finite() -> None:
    found = stretched(torch.tensor([[[1.0, 3.0, 2.0], [-4.0, -4.0, 0.0], [7.0, 7.0, 7.0]]]))
    assert found.tolist() == [[[0.0, 1.0, 0.5], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]]
