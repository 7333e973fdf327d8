from typing import ClassVar

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from gradcast.core import LogitSignal, Metrics, Unlabelled
from gradcast.errors import GradcastError
from gradcast.replicas.replicas import Replicas
from gradcast.signals.python_signal import PythonSignalSpec
from gradcast.signals.registry import SIGNALS
from gradcast.specs import build
from gradcast.specs.context import Context
from gradcast.specs.spec import Setting, describe
from gradcast.training.trainer import StepTrainer
from tests.training.scene import Diary, cut_and_gone_on, shared


class Entropy(LogitSignal):
    """The model shall be sure of unlabelled images."""

    checkpointed: ClassVar[tuple[str, ...]] = ("steps",)

    def __init__(self, context: Context, weight: float = 1.0) -> None:
        self.weight, self.classes, self.steps = weight, context.classes, 0

    def slopes(self, model: Replicas, z: Tensor, unlabelled: Unlabelled, task: int) -> tuple[Tensor, Metrics]:
        self.steps += 1
        logs = z.log_softmax(-1)
        entropy = -(logs.exp() * logs).sum(-1, keepdim=True)
        slope = -logs.exp() * (logs + entropy)
        return self.weight * slope / z.shape[1], {"entropy": entropy.mean((1, 2))}


def setting(path: str = "Entropy", beside: bool = False, **keys: object) -> Setting:
    own = {"name": "python", "path": f"{__name__}:{path}", **keys}
    return Setting.model_validate(
        {
            "stream": {"source": "digits", "tasks": 2, "samples": 30},
            "model": {"name": "mlp", "hidden": [8]},
            "learner": {"name": "gem", "memory": 10},
            "policy": {"p": 0.6},
            "pool": {"name": "patches", "count": 30},
            "signal": [{"name": "soft"}, own] if beside else own,
        }
    )


@pytest.mark.parametrize("beside", [False, True])
def test_a_class_of_ones_own_trains_as_every_signal_and_replicas_as_alone(beside: bool) -> None:
    together, both, alone, single = (
        setting(beside=beside, weight=0.5),
        Diary(),
        setting(beside=beside, weight=0.5),
        Diary(),
    )
    loop = shared(torch.float64).loop(together, [3, 4])
    loop.run([both])
    shared(torch.float64).loop(alone, [4]).run([single])
    for then, now in zip(both.metrics, single.metrics, strict=True):
        torch.testing.assert_close(then["loss"][1], now["loss"][0])
    used = [metrics for metrics in both.metrics if "entropy" in metrics]
    assert 0 < len(used) < 7
    assert isinstance(loop.trainer, StepTrainer)
    found = loop.trainer.update.signals[-1].signal
    assert isinstance(found, Entropy)
    assert (found.weight, found.classes, found.steps) == (0.5, 10, len(used))


def test_it_goes_on_where_it_was() -> None:
    whole, again, diary, rest = cut_and_gone_on(lambda: shared(torch.float64).loop(setting(), [3, 4]), 4)
    assert torch.equal(again.trainer.model.theta, whole.trainer.model.theta)
    assert torch.equal(rest.rows[-1], diary.rows[-1])
    assert isinstance(again.trainer, StepTrainer)
    assert isinstance(whole.trainer, StepTrainer)
    counts = [own.trainer.update.signals[0].signal.steps for own in (again, whole)]  # type: ignore[union-attr]
    assert counts[0] == counts[1] > 0


def test_rows_are_called_by_the_class_and_views_are_asked_for() -> None:
    own = setting(views=3)
    assert describe(own) == "GEM + Entropy"
    (table,) = own.signals
    assert build.views(table).count == 3
    assert "python" in SIGNALS
    with pytest.raises(ValidationError, match="path"):
        PythonSignalSpec.model_validate({"name": "python"})


def test_a_class_that_is_no_signal_is_refused() -> None:
    with pytest.raises(GradcastError, match=r"does not derive from gradcast\.Signal"):
        shared().loop(setting("Setting"), [0])
