from typing import ClassVar

import pytest
from pydantic import ValidationError

from gradcast.specs.table import Positive, Rate, Table


class Example(Table):
    count: Positive = 3
    rate: Rate = 0.5


def test_tables_are_frozen_and_closed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Example().count = 4  # type: ignore[misc]
    with pytest.raises(ValidationError, match="Extra inputs"):
        Example.model_validate({"cuont": 4})


@pytest.mark.parametrize(
    "raw", [{"count": True}, {"count": "3"}, {"count": 3.0}, {"rate": "0.1"}, {"rate": float("nan")}, {"count": 0}]
)
def test_types_are_not_converted(raw: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Example.model_validate(raw)


def test_a_whole_number_is_a_rate_too() -> None:
    assert Example.model_validate({"rate": 1}).rate == 1.0


class Grown(Example):
    """With a key that came later."""

    omitted_defaults: ClassVar[tuple[str, ...]] = ("later",)
    later: Rate = 0.1


def test_a_key_that_came_later_goes_without_saying_where_it_has_its_default() -> None:
    assert Grown().model_dump() == Example().model_dump()
    assert Grown(later=0.2).model_dump() == {"count": 3, "rate": 0.5, "later": 0.2}
    assert Grown.model_validate(Grown().model_dump()) == Grown()
