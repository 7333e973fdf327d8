from pathlib import Path

from gradcast.data.catalogue import CATALOGUE
from gradcast.data.registry import DATASETS, OTHERS, SOURCES
from tests.cli.process import called


def test_sources_are_labelled_datasets_and_what_is_always_there() -> None:
    assert set(OTHERS) == {"digits", "folder", "npz", "tasks", "python"}
    assert set(SOURCES) == set(OTHERS) | {name for name, own in CATALOGUE.items() if own.labelled}
    assert dict(DATASETS) == CATALOGUE  # no package adds any here


def test_an_unknown_source_is_told_the_nearest(tmp_path: Path) -> None:
    done = called("run", "--set", "stream.source=mnst", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.strip() == "error: stream.source = 'mnst' is unknown; did you mean 'mnist'?"
