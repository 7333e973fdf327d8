"""The one exception for mistakes that a sentence can explain."""


class GradcastError(Exception):
    """Bad input or a failed run: one sentence that names the thing and the remedy.

    The command line prints it without a traceback and exits with code 2.
    """


def told(error: BaseException) -> str:
    """The first line of somebody else's error, to be quoted in a sentence of ours; its kind where it says nothing."""
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__
