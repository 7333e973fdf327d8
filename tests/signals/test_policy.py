import pytest
from pydantic import ValidationError

from gradcast.signals.policy import Policy


def test_defaults_are_one_joint_step_in_about_every_seventh() -> None:
    found = Policy().model_dump()
    assert found == {
        "p": 0.15, "start": 0, "batch": 4, "update": "joint", "project": True, "batchnorm": "update", "guard": False
    }  # fmt: skip


@pytest.mark.parametrize(("key", "value"), [("p", 1.1), ("start", -1), ("batch", 0), ("update", "never")])
def test_what_no_step_can_do_is_refused(key: str, value: object) -> None:
    with pytest.raises(ValidationError, match=key):
        Policy.model_validate({key: value})
