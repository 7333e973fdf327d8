import os
import signal
import threading

from gradcast.checkpoint.stop import Stop


def test_the_first_signal_is_noted_and_handlers_come_back() -> None:
    stop, before = Stop(), [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with stop.listening():
        assert stop.signal is None
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
    assert stop.signal == signal.SIGTERM
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_other_threads_do_not_listen() -> None:
    stop, reached = Stop(), list[object]()

    def inside() -> None:
        with stop.listening():
            reached.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()
    assert reached == [signal.getsignal(signal.SIGTERM)]
