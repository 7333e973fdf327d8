from typing import Literal

import pytest
from pydantic import ValidationError

from gradcast.learners.learner_table import DescentTable, LearnerTable


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
