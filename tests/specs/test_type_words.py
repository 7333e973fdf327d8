from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from gradcast.specs.table import Momentum, Natural, Pixels, Positive, Probability, Rate, Share, Table
from gradcast.specs.type_words import type_words


class Own(Table):
    """A table of a test."""


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (bool, "true or false"),
        (int, "whole number"),
        (Positive, "whole number ≥ 1"),
        (Pixels, "whole number from 1 to 4,096"),
        (Rate, "number > 0"),
        (Probability, "number from 0 to 1"),
        (Share, "number > 0 and ≤ 1"),
        (Momentum, "number ≥ 0 and < 1"),
        (Literal["sgd", "adam", "none"], '"sgd", "adam" or "none"'),
        (Literal[1, -1], "1 or -1"),
        (Positive | Literal["all"], 'whole number ≥ 1 or "all"'),
        (Literal["auto"] | Literal["all", "head"], '"auto", "all" or "head"'),
        (Positive | None, "whole number ≥ 1"),
        (list[Natural], "list of whole numbers ≥ 0"),
        (Annotated[list[str], Field(min_length=1)], "list of text"),
        (dict[str, Rate], "table of numbers > 0"),
        (Own, "table"),
        (Own | Table, "table"),
        (list[Own], "list of tables"),
        (Any, "any value"),
    ],
)
def test_types_in_words(annotation: object, words: str) -> None:
    assert type_words(annotation) == words


def test_bounds_beside_a_type() -> None:
    info = Annotated[float, Field(ge=0, lt=1)]
    assert type_words(float, info.__metadata__) == "number ≥ 0 and < 1"
