import inspect
import sys
from pathlib import Path

import pytest
import torch
from rich.console import Console

import gradcast
from gradcast.errors import GradcastError
from gradcast.runs.api import run
from tests.trained_runs import finished, small

ONE = ("seeds=[0]", "stream.tasks=2")


def test_it_returns_an_object_that_says_what_came_out(tmp_path: Path) -> None:
    result = gradcast.run(small(), out=tmp_path, device="cpu")
    assert isinstance(result, gradcast.RunResult)
    assert result.directory.parent == tmp_path
    assert [row.acc() for row in result.rows] == [row.acc() for row in finished()[1]]


@pytest.mark.parametrize(
    ("progress", "terminal", "shown"),
    [(None, False, False), (None, True, True), (True, False, True), (False, True, False)],
)
def test_progress_is_shown_where_somebody_sees_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    progress: bool | None,
    terminal: bool,
    shown: bool,
) -> None:
    monkeypatch.setattr(Console, "is_terminal", terminal)
    run(small(*ONE), out=tmp_path, device="cpu", progress=progress)
    again = capsys.readouterr().err
    run(small(*ONE), out=tmp_path, device="cpu", progress=progress)
    assert ("GEM" in again) is shown
    assert ("finished earlier" in capsys.readouterr().err) is shown


def test_threads_are_left_alone_or_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[int | None]()
    monkeypatch.setattr(sys.modules["gradcast.runs.api"], "use_threads", asked.append)
    before = torch.get_num_threads()
    run(small(*ONE), out=tmp_path, device="cpu")
    assert (asked, torch.get_num_threads()) == ([], before)
    run(small(*ONE), out=tmp_path, device="cpu", threads=1)
    assert asked == [1]
    with pytest.raises(GradcastError, match="threads = 0 is not valid; give 1 or more"):
        run(small(*ONE), out=tmp_path, device="cpu", threads=0)


def test_every_argument_is_documented() -> None:
    text = run.__doc__ or ""
    assert [name for name in inspect.signature(run).parameters if f"        {name}: " not in text] == []
    assert [name for name in gradcast.__all__ if not getattr(gradcast, name).__doc__] == []
