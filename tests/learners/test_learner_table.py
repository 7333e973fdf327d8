from typing import Literal

import pytest
from pydantic import ValidationError

from gradcast.learners.learner_table import DescentTable, LearnerTable, ReservoirTable, TaskMemoryTable
from gradcast.streams.scale import Scale


class Mine(LearnerTable):
    name: Literal["mine"] = "mine"


class Descending(DescentTable):
    name: Literal["descending"] = "descending"


def test_a_learner_descends_plainly_unless_its_table_has_more() -> None:
    assert Mine().model_dump() == {"name": "mine", "lr": 0.1}
    assert Mine().descent == (0.0, 0.0)
    with pytest.raises(ValidationError, match="momentum"):
        Mine.model_validate({"momentum": 0.9})


def test_momentum_and_decay_go_without_saying_where_there_are_none() -> None:
    assert Descending().model_dump() == {"name": "descending", "lr": 0.1}
    own = Descending(momentum=0.9, decay=0.01)
    assert own.model_dump() == {"name": "descending", "lr": 0.1, "momentum": 0.9, "decay": 0.01}
    assert own.descent == (0.9, 0.01)


class Replaying(ReservoirTable):
    name: Literal["replaying"] = "replaying"


def test_a_reservoir_holds_so_many_a_task_or_so_many_in_all() -> None:
    assert Replaying(memory=40).places(5) == 200
    assert Replaying(capacity=500).places(5) == 500
    with pytest.raises(
        ValidationError, match=r"learner\.memory is samples a task and learner\.capacity samples in all"
    ):
        Replaying(memory=40, capacity=500)


def test_augmentation_of_replay_goes_without_saying_where_there_is_none() -> None:
    assert "augment" not in Replaying().model_dump()
    assert Replaying().reaugment(Scale()) is None
    own = Replaying(augment=["crop", "flip"])
    assert own.model_dump()["augment"] == ["crop", "flip"]
    found = own.reaugment(Scale())
    assert found is not None
    assert [step.name for step in found.steps] == ["crop", "flip"]
    with pytest.raises(ValidationError, match="augment"):
        Replaying.model_validate({"augment": ["flop"]})


class Remembering(TaskMemoryTable):
    name: Literal["remembering"] = "remembering"


def test_a_memory_of_a_task_has_the_images_of_a_replay() -> None:
    assert Remembering(memory=10).replay == 10
    with pytest.raises(ValidationError, match=r"learner\.memory = 9 holds fewer .* set learner\.memory to 10 or more"):
        Remembering(memory=9)
