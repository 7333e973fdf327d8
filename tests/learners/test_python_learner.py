from collections.abc import Mapping
from typing import Any, ClassVar

import pytest
import torch

from gradcast.core import Batch, Labelled, Learner, Scorer, TaskImages, Terms
from gradcast.errors import GradcastError
from gradcast.replicas.replicas import Replicas
from gradcast.specs.context import Context
from gradcast.specs.spec import Setting, describe
from gradcast.training.trainer import StepTrainer
from tests.training.scene import Diary, cut_and_gone_on, shared


class Shrinking(Learner):
    """Outputs shall be small; counts the tasks that it saw, and the images of the last."""

    checkpointed: ClassVar[tuple[str, ...]] = ("tasks", "images")

    def __init__(self, context: Context, strength: float = 0.1) -> None:
        self.strength, self.batch, self.tasks, self.images = strength, context.batch, 0, 0

    def task_begins(self, model: Replicas, images: TaskImages) -> None:
        self.tasks += 1
        self.images = sum(each.y.shape[1] for each in images.batches(7))

    def terms(self, model: Replicas, labelled: Labelled) -> Terms:
        return Terms(outputs=self.strength * labelled.outputs, metrics={"size": labelled.outputs.square().mean((1, 2))})


class Backwards(Learner):
    """Answers with the last class of every task."""

    def scorer(self, model: Replicas) -> Scorer:
        return lambda x: torch.arange(model.heads.logits).expand(*x.shape[:2], -1).to(x.dtype)


def setting(path: str = "Shrinking", schedule: Mapping[str, Any] | None = None, **keys: object) -> Setting:
    return Setting.model_validate(
        {
            "stream": {"source": "digits", "tasks": 2, "samples": 30},
            "model": {"name": "mlp", "hidden": [8]},
            "learner": {"name": "python", "path": f"{__name__}:{path}", **keys},
            "signal": {"name": "none"},
            **({"schedule": schedule} if schedule else {}),
        }
    )


SCHEDULES = [
    None,
    {"name": "steps", "steps": 4, "warm_up": 1, "milestones": [3], "test_every": 2},
    {"name": "plateau", "epochs": 1, "validation": 0.2},
]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_class_of_ones_own_trains_under_every_schedule_and_replicas_as_alone(
    schedule: Mapping[str, Any] | None,
) -> None:
    own, both, single = setting(schedule=schedule, strength=0.2), Diary(), Diary()
    loop = shared(torch.float64).loop(own, [3, 4])
    loop.run([both])
    shared(torch.float64).loop(own, [4]).run([single])
    for then, now in zip(both.metrics, single.metrics, strict=True):
        torch.testing.assert_close(then["loss"][1], now["loss"][0])
        assert "size" in then
    assert isinstance(loop.trainer, StepTrainer)
    found = loop.trainer.update.learner
    assert isinstance(found, Shrinking)
    assert (found.strength, found.batch, found.tasks) == (0.2, 10, 2)
    assert found.images == (24 if schedule is not None and schedule["name"] == "plateau" else 30)


def test_terms_count() -> None:
    sizes = []
    for strength in (0.0, 0.5):
        diary = Diary()
        shared(torch.float64).loop(setting(strength=strength), [3]).run([diary])
        sizes.append(float(diary.metrics[-1]["size"]))
    assert sizes[1] < 0.5 * sizes[0]


def test_it_goes_on_where_it_was() -> None:
    whole, again, diary, rest = cut_and_gone_on(lambda: shared(torch.float64).loop(setting(), [3, 4]), 4)
    assert torch.equal(again.trainer.model.theta, whole.trainer.model.theta)
    assert torch.equal(rest.rows[-1], diary.rows[-1])
    assert isinstance(again.trainer, StepTrainer)
    assert again.trainer.update.learner.tasks == 2  # type: ignore[attr-defined]


def test_it_may_classify_in_its_own_way() -> None:
    diary = Diary()
    loop = shared().loop(setting("Backwards"), [3])
    loop.run([diary])
    nines = [float((loop.data.stream.test(task).y == 9).mean()) for task in range(2)]
    assert diary.rows[-1].tolist() == [pytest.approx(nines)]


def test_rows_are_called_by_the_class_and_what_is_no_learner_is_refused() -> None:
    assert describe(setting()) == "Shrinking"
    with pytest.raises(GradcastError, match=r"does not derive from gradcast\.Learner"):
        shared().loop(setting("Batch"), [0])
    assert issubclass(Batch, object)
