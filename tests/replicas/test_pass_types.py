import pytest
import torch

from gradcast.replicas.pass_types import Statistics, buffers_for, updating_replicas

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


def test_only_updating_replicas_keep_what_a_pass_does_to_buffers() -> None:
    own = {"mean": torch.zeros(2, 3)}
    for updating, expected in ((None, [1.0, 1.0]), (USED, [2.0, 1.0])):
        with buffers_for(own, updating) as seen:
            seen["mean"] += 1
            assert (seen["mean"] is own["mean"]) == (updating is None)
        assert own["mean"][:, 0].tolist() == expected
