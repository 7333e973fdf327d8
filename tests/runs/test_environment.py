from pathlib import Path

import torch

import gradcast
from gradcast.cluster.ranks import Ranks
from gradcast.runs.environment import describe, source_digest


def test_description_names_what_may_explain_a_difference() -> None:
    found = describe(torch.device("cpu"))
    assert found["device"] == "cpu"
    assert isinstance(found["versions"], dict)
    assert found["versions"]["gradcast"] == gradcast.__version__
    assert (
        found["versions"]["torch"] == torch.__version__.partition("+")[0]
        or found["versions"]["torch"] == torch.__version__
    )
    assert set(found) == {"versions", "commit", "source", "platform", "device", "threads"}


def test_the_source_digest_follows_every_module_and_nothing_else(tmp_path: Path) -> None:
    def digest() -> str:
        source_digest.cache_clear()
        return source_digest(tmp_path)

    (tmp_path / "a.py").write_text("x = 1\n")
    first = digest()
    (tmp_path / "a.pyc").write_text("x")
    assert digest() == first
    (tmp_path / "a.py").write_text("x = 2\n")
    second = digest()
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.py").rename(tmp_path / "sub" / "a.py")
    assert len({first, second, digest()}) == 3
    source_digest.cache_clear()


def test_several_ranks_are_counted() -> None:
    assert describe(torch.device("cpu"), Ranks(0, 3, 0, Path()))["ranks"] == 3
