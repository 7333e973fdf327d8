"""The checker checks less than every call, and still finds what is wrong."""

from collections.abc import Callable

import pytest
import torch
from jaxtyping import Float, TypeCheckError
from torch import Tensor

from tests.typechecker import ENOUGH, check, checked


def product(a: Float[Tensor, "n m"], b: Float[Tensor, " m"]) -> Float[Tensor, " n"]:
    return a @ b if a.shape[0] < 5 else (a @ b)[:1]


def test_other_shapes_are_checked_however_many_calls_were_right() -> None:
    function = checked(product, typechecker=check)
    for _ in range(ENOUGH + 1):
        function(torch.ones(3, 2), torch.ones(2))
    with pytest.raises(TypeCheckError, match="Type-check"):
        function(torch.ones(3, 2), torch.ones(3))
    with pytest.raises(TypeCheckError, match="Type-check"):
        function(torch.ones(3, 2), torch.ones(2, dtype=torch.int64))
    with pytest.raises(TypeCheckError, match="Type-check"):
        function(torch.ones(6, 2), torch.ones(2))  # what comes back is wrong


def test_a_function_that_is_made_again_and_again_is_checked_at_first() -> None:
    def make() -> Callable[[object], int]:
        def inner(value: int) -> int:
            return value

        return checked(inner, typechecker=check)  # type: ignore[no-any-return]

    for _ in range(ENOUGH):
        with pytest.raises(Exception, match="type hint"):
            make()("text")
    assert make()("text") == "text"
