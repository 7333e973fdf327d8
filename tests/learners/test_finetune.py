import torch

from gradcast.learners.finetune import Finetune
from gradcast.training.step import Step
from tests.helpers import batch, replicas


def test_finetune_is_torchs_sgd() -> None:
    model = replicas(1)
    module = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3)).double()
    for parameter, value in zip(module.parameters(), model.parameters(model.theta).values(), strict=True):
        parameter.data = value[0].clone()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    step = Step(model, Finetune(), 0.1)
    for seed in range(5):
        data = batch(model, task=seed // 2, seed=seed)
        metrics = step(data)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(module(data.x[0]), data.y[0])
        loss.backward()
        optimizer.step()
        torch.testing.assert_close(metrics["loss"][0], loss.detach())
        assert metrics["projected"].tolist() == [False]
    expected = torch.cat([parameter.detach().flatten() for parameter in module.parameters()])
    torch.testing.assert_close(model.theta[0], expected, rtol=1e-12, atol=1e-14)
