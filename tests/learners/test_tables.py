from typing import Literal

from gradcast.learners.tables import LearnerTable


class Mine(LearnerTable):
    name: Literal["mine"] = "mine"


def test_momentum_and_decay_go_without_saying_where_there_are_none() -> None:
    assert Mine().model_dump() == {"name": "mine", "lr": 0.1}
    assert Mine(momentum=0.9, decay=0.01).model_dump() == {"name": "mine", "lr": 0.1, "momentum": 0.9, "decay": 0.01}
