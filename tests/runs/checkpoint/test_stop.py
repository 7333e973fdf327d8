import os
import signal
import threading
from collections.abc import Iterator

import pytest

from gradcast.runs.checkpoint.stop import Stop

BOTH = (signal.SIGINT, signal.SIGTERM)


@pytest.fixture
def before() -> Iterator[list[object]]:
    """The handlers of a process that was not told to end; they are put back."""
    found = [signal.getsignal(number) for number in BOTH]
    yield list(found)
    for number, handler in zip(BOTH, found, strict=True):
        signal.signal(number, handler)


def test_the_first_signal_is_noted_and_handlers_come_back(before: list[object]) -> None:
    stop = Stop()
    with stop.listening():
        assert stop.signal is None
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
    assert stop.signal == signal.SIGINT
    assert [signal.getsignal(number) for number in BOTH] == before


def test_a_process_that_was_told_to_end_is_not_killed_on_its_way_out(before: list[object]) -> None:
    stop = Stop()
    with stop.listening():
        os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGTERM)
    assert stop.signal == signal.SIGTERM
    assert [signal.getsignal(number) for number in BOTH] == [before[0], signal.SIG_IGN]


def test_other_threads_do_not_listen() -> None:
    stop, reached = Stop(), list[object]()

    def inside() -> None:
        with stop.listening():
            reached.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()
    assert reached == [signal.getsignal(signal.SIGTERM)]
