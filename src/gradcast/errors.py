"""The one exception for mistakes that a sentence can explain."""


class GradcastError(Exception):
    """Bad input or a failed run: one sentence that names the thing and the remedy.

    The command line prints it without a traceback and exits with code 2.
    """
