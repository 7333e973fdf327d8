import pytest

from gradcast.results.sizes import by_row, h_parameters, of_h


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([], ""),
        ([("a", "5")], "5"),
        ([("a", "5"), ("b", "5")], "5"),
        ([("a", "5"), ("b", "5"), ("c", "7")], "5; 7 in 'c'"),
        ([("a", "7"), ("b", "5"), ("c", "5"), ("d", "7"), ("e", "5")], "5; 7 in 'a' and 'd'"),
        ([("a", "5"), ("b", "7")], "5 in 'a'; 7 in 'b'"),
    ],
)
def test_rows_that_differ_from_the_others_are_named(values: list[tuple[str, str]], told: str) -> None:
    assert by_row(values) == told


def test_many_rows_are_counted() -> None:
    values = [
        *((f"a {number}", "1 image") for number in range(9)),
        *((f"b {number}", "2 images") for number in range(6)),
    ]
    assert by_row(values) == "1 image; 2 images in 6 other rows"


def test_h_in_words() -> None:
    assert of_h([("GEM", None)]) == ""
    assert of_h([("GEM", None), ("predicted", 1824)]) == "The gradient learner h has 1,824 parameters"


def test_runs_of_earlier_versions_do_not_say() -> None:
    assert h_parameters({}) is None
    assert h_parameters({"h_parameters": "many"}) is None
    assert h_parameters({"h_parameters": 1824}) == 1824
