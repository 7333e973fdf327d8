import pytest
from pydantic import ValidationError

from gradcast.reproduce.experiment_tables import Header, SweepTable


def test_a_sweep_has_at_least_one_value_and_a_figure_one_measure() -> None:
    with pytest.raises(ValidationError, match="values"):
        SweepTable(name="p", label="p", key="policy.p", values=[])
    with pytest.raises(ValidationError, match="measures"):
        Header(id="T1", title="", about="", measures=[])


def test_names_of_values_are_as_many_as_the_values() -> None:
    assert SweepTable(name="p", label="p", key="pool.ratio", values=[0.1, 1.0], called=[10, 100]).called == [10, 100]
    with pytest.raises(ValidationError, match="called has 1 names for 2 values"):
        SweepTable(name="p", label="p", key="pool.ratio", values=[0.1, 1.0], called=[10])


@pytest.mark.parametrize("share", [0.0, 1.5])
def test_a_quick_look_has_a_share_of_a_head_start(share: float) -> None:
    with pytest.raises(ValidationError, match="quick_steps"):
        Header(id="T1", title="", about="", quick_steps=share)
