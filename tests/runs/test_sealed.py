import json
from pathlib import Path

import pytest

from gradcast.runs.sealed import Schema, read_sealed, validated, write_sealed


class Facts(Schema):
    """Two kinds of numbers."""

    count: int
    shares: list[float]


def test_what_is_read_is_what_was_written(tmp_path: Path) -> None:
    write_sealed(tmp_path / "a.json", Facts(count=3, shares=[0.1, 1.0]))
    assert read_sealed(tmp_path / "a.json", Facts) == Facts(count=3, shares=[0.1, 1.0])


def test_every_change_is_found(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    write_sealed(file, Facts(count=3, shares=[0.1, 1.0]))
    whole = file.read_text()
    for old, new in (("3", "4"), ("0.1", "0.2"), ("count", "counts"), ("digest", "digests"), ("{", "[")):
        assert old in whole
        file.write_text(whole.replace(old, new, 1))
        with pytest.raises(ValueError, match=r"digest does not fit|Expecting"):
            read_sealed(file, Facts)


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ({"count": 1.5, "shares": []}, "count: input should be a valid integer"),
        ({"count": True, "shares": []}, "count: input should be a valid integer"),
        ({"count": 1}, "shares: field required"),
        ({"count": 1, "shares": [], "x": 1}, "x: extra inputs are not permitted"),
        ({"count": 1, "shares": [float("nan")]}, "shares.0: input should be a finite number"),
        ([], "it: input should be an object"),
    ],
)
def test_other_content_is_named(said: object, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        validated(json.loads(json.dumps(said)), Facts)
