import json

import pytest

from gradcast.runs.jsontext import parse_json, to_json


def test_what_json_says() -> None:
    found = parse_json('{"a": [1, -2.5, null, true, "ü", NaN, -9223372036854775808]}')
    assert found["a"][:5] == [1, -2.5, None, True, "ü"]
    assert found["a"][5] != found["a"][5]
    assert found["a"][6] == -(2**63)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "Expecting value"),
        ('{"a": 1', "Expecting"),
        ("[" * 100_000, "it nests too deeply"),
        ('{"a":' * 100_000, "it nests too deeply"),
        ("9" * 400, "the number 99999999999999999999… is too large"),
        ("-9" + "9" * 30, "is too large"),
        ("9" * 5000, "Exceeds the limit"),
    ],
)
def test_every_fault_is_a_value_error(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_json(text)


def test_json_has_no_infinities() -> None:
    assert json.loads(to_json({"a": [1.0, float("inf")], "b": {"c": float("nan")}})) == {
        "a": [1.0, None],
        "b": {"c": None},
    }
