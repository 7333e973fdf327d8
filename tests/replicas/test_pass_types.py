import pytest
import torch

from gradcast.replicas.pass_types import Statistics, updating_replicas

USED = torch.tensor([True, False])


@pytest.mark.parametrize(
    ("statistics", "used", "expected"),
    [
        ("separate", None, [False, False]),
        ("separate", USED, [False, False]),
        ("update", USED, [True, False]),
        ("update", None, None),
        ("frozen", USED, None),
    ],
)
def test_which_running_statistics_a_pass_may_change(
    statistics: Statistics, used: torch.Tensor | None, expected: list[bool] | None
) -> None:
    found = updating_replicas(statistics, used, torch.zeros(2, 5))
    assert (None if found is None else found.tolist()) == expected
