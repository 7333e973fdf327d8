import re

import pytest

from gradcast.errors import Diverged, GradcastError, message_of, warn


@pytest.mark.parametrize(
    ("error", "quoted"),
    [
        (ValueError("\n  first line\nsecond"), "first line"),
        (KeyError(), "KeyError"),
        (RuntimeError("x" * 300), "x" * 200),
    ],
)
def test_an_error_is_quoted_in_one_short_line(error: Exception, quoted: str) -> None:
    assert message_of(error) == quoted


def test_a_sentence_is_one_line_of_bearable_length_and_steers_no_terminal() -> None:
    assert str(GradcastError("a\nb \x1b[2J\u202e.")) == "a b ?[2J?."
    with pytest.warns(UserWarning, match=re.escape("skipped a?[2J.png")):
        warn("skipped a\x1b[2J.png")
    assert str(Diverged("the loss is\r\nnot finite")) == "the loss is not finite"
    long = str(GradcastError(f"unknown key '{'x' * 5000}'; known: {'y' * 150}, z"))
    assert len(long) < 750
    assert long.startswith("unknown key 'xxx")
    assert long.endswith(f"'; known: {'y' * 150}, z")
