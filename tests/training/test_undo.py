import pytest
import torch
from torch import Tensor, nn

from gradcast.core import Batch, Learner
from gradcast.gradients.gradient_learner import GradientLearner
from gradcast.learners.agem import Agem
from gradcast.learners.er import Er
from gradcast.learners.finetune import Finetune
from gradcast.memories.by_class import ClassMemory
from gradcast.memories.reservoir import Reservoir
from gradcast.replicas.heads import Heads
from gradcast.replicas.replicas import Replicas
from gradcast.signals.predicted import Predicted
from gradcast.signals.pseudo import Attached
from gradcast.training.step import Step
from gradcast.training.undo import Undo


def network(count: int = 2) -> Replicas:
    torch.manual_seed(0)
    modules = [nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2)) for _ in range(count)]
    return Replicas(modules, Heads.even(2, 1, masked=False), device=torch.device("cpu"), dtype=torch.float64)


def batch(x: Tensor | None = None) -> Batch:
    torch.manual_seed(1)
    drawn = torch.randn(2, 6, 3, dtype=torch.float64)
    return Batch(drawn if x is None else x, torch.randint(2, (2, 6)), 0)


def everything(step: Step) -> list[Tensor]:
    signal = step.signals[0].signal
    assert isinstance(signal, Predicted)
    h = signal.learner
    moments = [v for state in h.optimizer.state.values() for v in state.values() if v.dim()]
    return [step.model.theta, *step.model.buffers.values(), *(p.detach() for p in h.parameters()), *moments]


def predicting(*, skips: bool) -> Step:
    torch.manual_seed(2)
    h = GradientLearner(2, (3,), optimizer="adam", lr=0.01, replicas=(2,)).double()
    return Step(network(), Finetune(), 0.1, [Attached(Predicted(h))], skips=skips)


def test_only_the_spoiled_replicas_step_is_undone() -> None:
    plain, careful = predicting(skips=False), predicting(skips=True)
    for step in (plain, careful):
        step(batch())
    assert all(torch.equal(a, b) for a, b in zip(everything(plain), everything(careful), strict=True))
    before = [tensor.clone() for tensor in everything(careful)]
    poisoned = batch().x.clone()
    poisoned[1, 0, 0] = torch.nan
    metrics = careful(batch(poisoned))
    assert metrics["finite"].tolist() == [True, False]
    assert metrics["skipped"].tolist() == [0.0, 1.0]
    plain(batch())  # the other replica saw the same images as always
    for old, new, healthy in zip(before, everything(careful), everything(plain), strict=True):
        assert torch.equal(new[1], old[1])
        assert torch.equal(new[0], healthy[0])
    assert careful(batch())["finite"].all()


def test_a_first_step_that_fails_leaves_no_poison_in_an_optimizer() -> None:
    step = predicting(skips=True)
    step(batch(torch.full((2, 6, 3), torch.nan, dtype=torch.float64)))
    assert all(torch.isfinite(tensor).all() for tensor in everything(step))
    assert step(batch())["finite"].all()


@pytest.mark.parametrize(
    "learner", [Er(Reservoir(10, [0, 1]), 2), Agem(ClassMemory(Heads.even(2, 2), 4, seeds=[0, 1]))]
)
def test_images_in_memory_are_not_copied(learner: Learner) -> None:
    step = Step(network(), learner, 0.1, skips=True)
    step(batch())
    paths = list(Undo([step.networks(), step.learner], 2).before)
    assert any("theta" in path for path in paths)
    assert not any("memory" in path for path in paths)
