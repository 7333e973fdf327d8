import torch
from torch.nn.functional import kl_div

from gradcast.learners.common_space import CommonSpace, element_divergence
from gradcast.randomness import seeded
from tests.replicas.passes.reference import numbers


def test_layers_begin_as_those_of_torch_and_anew_with_every_task() -> None:
    like = numbers(1)
    space, other = CommonSpace(4, [3, 5], 1, like), CommonSpace(4, [5], 2, like)
    with seeded(5, "common space", 1):
        expected = torch.nn.Linear(4, 8, bias=False).weight.detach().double()
    assert torch.equal(space.align[0][1].detach(), expected)
    assert not torch.equal(space.align[0][1], other.align[0][0])
    assert len({id(weight) for weight in space.weights}) == 14
    assert all(weight.requires_grad and weight.shape[0] == 2 for weight in space.weights)


def test_the_loss_is_a_replicas_own_and_none_where_all_features_are_zero() -> None:
    together, alone = CommonSpace(4, [3, 5], 1, numbers(1)), CommonSpace(4, [5], 1, numbers(1))
    student, *teachers = (numbers(2, 6, 4, seed=seed) for seed in range(3))
    found = together.loss(student, teachers, 0.5)
    assert (found > 0).all()
    torch.testing.assert_close(found[1:], alone.loss(student[1:], [each[1:] for each in teachers], 0.5))
    nothing = torch.zeros_like(student)
    assert together.loss(nothing, [nothing, nothing], 0.5).tolist() == [0.0, 0.0]


def test_the_divergence_is_a_mean_over_elements() -> None:
    label, z = numbers(1, 3, 4), numbers(1, 3, 4, seed=1)
    expected = kl_div(z[0].log_softmax(1), label[0].softmax(1), reduction="none").mean()
    torch.testing.assert_close(element_divergence(label, z)[0], expected)
