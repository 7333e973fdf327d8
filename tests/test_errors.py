import pytest

from gradcast.errors import told


@pytest.mark.parametrize(
    ("error", "quoted"),
    [
        (ValueError("\n  first line\nsecond"), "first line"),
        (KeyError(), "KeyError"),
        (RuntimeError("x" * 300), "x" * 200),
    ],
)
def test_an_error_is_quoted_in_one_short_line(error: Exception, quoted: str) -> None:
    assert told(error) == quoted
