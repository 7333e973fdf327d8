"""The exception for mistakes that a sentence can explain, and its kind that is a result too."""

from collections.abc import Sequence

BAD_INPUT = 2  # the exit code
BEGINNING, END = 500, 200  # letters that are kept of a sentence that quotes too much


class GradcastError(Exception):
    """Bad input or a failed run: one sentence that names the thing and the remedy.

    The command line prints it without a traceback and exits with ``BAD_INPUT``. It may quote what a file says: whatever
    that is, the sentence stays one line, of a bearable length, without signs that a terminal would obey.
    """

    def __init__(self, sentence: str) -> None:
        line = "".join(sign if sign.isprintable() else "?" for sign in " ".join(sentence.split()))
        super().__init__(line if len(line) <= BEGINNING + END else f"{line[:BEGINNING]} … {line[-END:]}")


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
