import threading
from pathlib import Path

import pytest

from gradcast.runs.checkpoint.writer import Writer


def test_one_write_at_a_time_beside_the_caller() -> None:
    writer, gate, done = Writer(), threading.Event(), list[str]()

    def slow() -> Path:
        assert gate.wait(10)
        done.append("slow")
        return Path()

    writer.start(slow)
    assert done == []  # the caller goes on meanwhile
    gate.set()
    writer.start(lambda: done.append(f"after {done[-1]}") or Path())  # type: ignore[func-returns-value]
    writer.close()
    assert done == ["slow", "after slow"]
    assert not writer.failed


def test_an_error_is_a_warning_when_somebody_waits() -> None:
    writer = Writer()

    def full() -> Path:
        raise OSError(28, "No space left on device")

    writer.start(full)
    with pytest.warns(UserWarning, match="could not be written .*No space left on device.*the run goes on"):
        writer.close()
    assert writer.failed
