from pathlib import Path

import pytest

from gradcast.cli.options import data_folder, with_seeds
from gradcast.errors import GradcastError


def test_datasets_lie_where_the_option_says_else_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADCAST_DATA", "/there")
    assert data_folder(Path("/here")) == Path("/here")
    assert data_folder(None) == Path("/there")


def test_seeds_are_said_once() -> None:
    assert with_seeds(["stream.tasks=3"], 2) == ["stream.tasks=3", "seeds=[0, 1]"]
    assert with_seeds(["seeds=[5, 6]"], None) == ["seeds=[5, 6]"]
    with pytest.raises(GradcastError, match=r"--seeds 2 and --set seeds=\[5, 6\] contradict each other"):
        with_seeds(["seeds=[5, 6]"], 2)
