import torch
from torch.nn.functional import cross_entropy

from gradcast.replicas.heads import Heads
from gradcast.signals.fgsm import fgsm
from tests.helpers import batch, replicas
from tests.replicas.test_replicas import own_module


def test_every_number_goes_one_step_up_the_loss_and_is_not_clamped() -> None:
    model = replicas(2, heads=Heads.even(3, 2, masked=True), norm="batch")
    model.forward(batch(model, seed=3).x, 0)  # running statistics of its own
    own, size = batch(model), torch.linspace(0.1, 0.6, 6, dtype=torch.float64)
    tasks = torch.tensor([[0, 1, 0, 1]] * 2)
    before = model.theta.clone()
    found = fgsm(model, own.x, own.y, tasks, 1, size)
    for replica in range(2):
        network, x = own_module(model, replica).eval(), own.x[replica].clone().requires_grad_()
        z = network(x)
        loss = sum(cross_entropy(z[i, 3 * t : 3 * t + 3], own.y[replica, i]) for i, t in enumerate([0, 1, 0, 1]))
        assert isinstance(loss, torch.Tensor)
        (slope,) = torch.autograd.grad(loss, x)
        torch.testing.assert_close(found[replica], own.x[replica] + size * slope.sign(), rtol=0, atol=1e-12)
    assert torch.equal(model.theta, before)
    assert not found.requires_grad
