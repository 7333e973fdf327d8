from pathlib import Path

import pytest

from gradcast.cli.options import data_folder


def test_datasets_lie_where_the_option_says_else_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADCAST_DATA", "/there")
    assert data_folder(Path("/here")) == Path("/here")
    assert data_folder(None) == Path("/there")
