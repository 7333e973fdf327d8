"""The exception for mistakes that a sentence can explain, its kind that is a result too, and warnings."""

import warnings
from collections.abc import Sequence

BAD_INPUT = 2  # the exit code
BEGINNING, END = 500, 200  # letters that are kept of a sentence that quotes too much


def one_line(sentence: str) -> str:
    """A sentence as one line of a bearable length, without signs that a terminal would obey."""
    line = printable(" ".join(sentence.split()))
    return line if len(line) <= BEGINNING + END else f"{line[:BEGINNING]} … {line[-END:]}"


def printable(text: str) -> str:
    """A text without signs that a terminal would obey."""
    return "".join(sign if sign.isprintable() else "?" for sign in text)


def warn(sentence: str) -> None:
    """Warn in a sentence that may quote what a file says, such as its name."""
    warnings.warn(one_line(sentence), stacklevel=3)


class GradcastError(Exception):
    """Bad input or a failed run: one sentence that names the thing and the remedy.

    The command line prints it without a traceback and exits with ``BAD_INPUT``. It may quote what a file says.
    """

    def __init__(self, sentence: str) -> None:
        super().__init__(one_line(sentence))


class Diverged(GradcastError):
    """Loss or weights of some seeds are not finite any more: for a table of settings that is an answer, not the end."""

    def __init__(self, sentence: str, seeds: Sequence[int] = ()) -> None:
        super().__init__(sentence)
        self.seeds = list(seeds)


def message_of(error: BaseException) -> str:
    """The first line of somebody else's error, to be quoted in a sentence of ours; its kind where it says nothing."""
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__


class Stopped(BaseException):
    """A signal asked a run to stop, and it did; no Exception, so that nobody who catches mistakes goes on."""

    def __init__(self, signal: int, sentence: str) -> None:
        super().__init__(sentence)
        self.signal = signal

    @property
    def code(self) -> int:
        """The exit code, as shells have it."""
        return 128 + self.signal
