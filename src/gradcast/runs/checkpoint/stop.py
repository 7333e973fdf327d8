"""Being asked to stop: a signal is noted, and answered between two steps."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

ASKING = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """Whether somebody asked, and by which signal; further signals change nothing."""

    def __init__(self) -> None:
        self.signal: int | None = None

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Meanwhile SIGINT and SIGTERM are notes; only the main thread may listen."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._note) for number in ASKING}
        try:
            yield
        finally:
            for number, handler in before.items():
                # told to end, the process ends: told once more on its way out, it must not die of that
                signal.signal(number, signal.SIG_IGN if number == signal.SIGTERM == self.signal else handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.signal = self.signal or number
