import pytest

from gradcast.errors import GradcastError
from gradcast.networks.rates import rate_factors

NAMES = ["stem.weight", "blocks.1.weight", "blocks.10.weight", "blocks.10.bias", "top.linear.weight", "top.linear.bias"]


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        ({"body": 0.1}, [0.1, 0.1, 0.1, 0.1, 1, 1]),
        ({"head": 2.0}, [1, 1, 1, 1, 2, 2]),
        ({"blocks": 0.5, "blocks.1": 0.2, "body": 0.0}, [0, 0.2, 0.5, 0.5, 1, 1]),
        ({"blocks.10.bias": 3.0, "head": 0.0}, [1, 1, 1, 3, 0, 0]),
        ({"top": 4.0, "head": 2.0}, [1, 1, 1, 1, 4, 4]),
    ],
)
def test_the_longest_beginning_of_a_name_decides(rates: dict[str, float], expected: list[float]) -> None:
    assert rate_factors(rates, NAMES) == expected


def test_without_rates_nothing_is_multiplied() -> None:
    assert rate_factors({}, NAMES) is None


def test_a_part_that_is_not_there_is_named_with_the_nearest() -> None:
    with pytest.raises(GradcastError, match=r"no trained weight is in 'block'; did you mean 'blocks'\?"):
        rate_factors({"block": 0.1}, NAMES)
