"""One thread that writes while training goes on."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from gradcast.errors import message_of, warn


class Writer:
    """Writes one thing at a time; what goes wrong is a warning, a full disk does not end a run."""

    def __init__(self) -> None:
        self.pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="checkpoint")
        self.pending: Future[Path] | None = None
        self.failed = False  # whether the latest write did

    def start(self, write: Callable[[], Path]) -> None:
        """Begin, when the write before is done."""
        self.wait()
        self.pending = self.pool.submit(write)

    def wait(self) -> None:
        """Until nothing is being written."""
        if self.pending is None:
            return
        error, self.pending = self.pending.exception(), None
        self.failed = error is not None
        if error is not None:
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        """There is no checkpoint this time."""
        self.failed = True
        warn(f"a checkpoint could not be written ({message_of(error)}); the run goes on")

    def close(self) -> None:
        """Wait and end the thread."""
        self.wait()
        self.pool.shutdown()
