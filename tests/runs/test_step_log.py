import pytest

from gradcast.runs.step_log import logged, shares

STEP = '{"step": 0, "task": 1, "loss": 0.5, "tau": "inf"}'


def test_steps_are_what_was_written_and_infinities_are_words() -> None:
    assert logged([STEP, STEP], 2) == [{"step": 0, "task": 1, "loss": 0.5, "tau": "inf"}] * 2
    assert logged([]) == []


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("{", "line 2: Expecting property name"),
        ("[1]", "line 2 has not the numbers of a step"),
        (STEP.replace("inf", "endless"), "line 2 has not the numbers of a step"),
        ('{"task": 1}', "line 2 is a step without its loss or task"),
        (STEP.replace('"task": 1', '"task": -1'), "line 2 is a step without its loss or task"),
        (STEP.replace('"task": 1', '"task": 2'), "line 2 is a step without a known task"),
    ],
)
def test_a_line_that_is_no_step_is_named(line: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        logged([STEP, line], 2)


def test_shares_of_images_are_between_nothing_and_all() -> None:
    assert shares(["0,0.0,1.0", "1,0.25,0.5"], 2) == [[0.0, 1.0], [0.25, 0.5]]
    for line, fault in (("1,0.5", "1 numbers for 2 tasks"), ("1,a,b", "no number"), ("1,0.5,1.01", "no share")):
        with pytest.raises(ValueError, match=f"line 3 has .*{fault}"):
            shares(["0,0.0,1.0", line], 2)
