import os

import pytest
import torch

from gradcast.cli import threads
from gradcast.cli.threads import choose_threads


@pytest.fixture(autouse=True)
def _machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four cores and no GPU; torch keeps its own threads."""
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr(threads, "own_cores", lambda: 4)
    monkeypatch.setattr(threads, "use_threads", lambda count: count or 4)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.mark.parametrize(("load", "chosen"), [(0.0, 4), (1.9, 4), (2.1, 1), (40.0, 1)])
def test_a_busy_cpu_gets_one_thread_and_a_sentence(
    load: float, chosen: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    assert choose_threads(None) == chosen
    printed = capsys.readouterr()
    assert printed.out == ""
    assert ("one thread is used; --threads 4 takes every core" in " ".join(printed.err.split())) is (chosen == 1)


def test_what_is_given_holds_and_nothing_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (40.0, 0.0, 0.0))
    assert choose_threads(3) == 3
    assert choose_threads(None, elsewhere=True) == 4  # workers have threads of their own
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert choose_threads(None, "auto") == 4  # the GPU computes
    assert capsys.readouterr().err == ""
    assert choose_threads(None, "cpu") == 1


def test_a_system_that_tells_no_load_is_not_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown() -> tuple[float, float, float]:
        raise OSError

    monkeypatch.setattr(os, "getloadavg", unknown)
    assert choose_threads(None) == 4
