from typing import Literal

import pytest
from pydantic import ValidationError

from gradcast.signals.signal_table import LabelsTable, SignalTable


class Labels(LabelsTable):
    name: Literal["labels"] = "labels"


def test_a_signal_takes_the_first_pool_without_saying_so() -> None:
    class Plain(SignalTable):
        name: Literal["plain"] = "plain"

    assert Plain().model_dump() == {"name": "plain"}
    assert Plain(pool="patches").model_dump() == {"name": "plain", "pool": "patches"}


def test_rows_have_a_length_or_a_weight() -> None:
    assert Labels(weight=0.5).length is None
    found = Labels(scaled=True, alpha=0.2).length
    assert found is not None
    assert found.alpha == 0.2
    with pytest.raises(ValidationError, match=r"signal\.weight does nothing where signal\.scaled is true"):
        Labels(scaled=True, weight=0.5)
