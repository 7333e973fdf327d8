import pytest
from gradcast.epochs.schedule import Schedule
from pydantic import ValidationError


def test_the_defaults_are_those_published_for_cifar_100() -> None:
    assert Schedule().model_dump() == {
        "epochs": 200,
        "validation": 0.15,
        "validation_batch": 9,
        "factor": 3.0,
        "smallest": 1e-6,
        "patience": 5,
        "reset": "fixed",
        "above_chance": 0.02,
    }


@pytest.mark.parametrize(("key", "value"), [("factor", 1.0), ("validation", 1.0), ("patience", 0), ("reset", "maybe")])
def test_what_would_never_end_or_train_nothing_is_refused(key: str, value: object) -> None:
    with pytest.raises(ValidationError, match=key):
        Schedule.model_validate({key: value})
