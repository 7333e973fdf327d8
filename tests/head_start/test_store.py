from pathlib import Path

import pytest
import torch

from gradcast.data.cache import Cache
from gradcast.head_start.store import Store


def test_what_is_kept_is_found_and_listed_with_its_size(tmp_path: Path) -> None:
    store = Store(Cache(tmp_path))
    assert store.find("a") is None
    weights = {"w": torch.rand(2, 3)}
    store.keep("a", weights, {"loss": [(1, 2.5)], "steps": 4})
    found = store.find("a")
    assert found is not None
    assert torch.equal(found.weights["w"], weights["w"])
    assert found.told == {"loss": [[1, 2.5]], "steps": 4}
    assert store.find("b") is None
    (entry,) = Cache(tmp_path).entries()
    assert entry.path.name.startswith("head-start-")
    assert entry.size > 24
    store.keep("a", {"w": torch.zeros(1)}, {})  # somebody was faster: theirs stays
    again = store.find("a")
    assert again is not None
    assert torch.equal(again.weights["w"], weights["w"])


@pytest.mark.parametrize("file", ["weights.safetensors", "told.json"])
def test_a_damaged_one_is_named_and_made_anew(tmp_path: Path, file: str) -> None:
    store = Store(Cache(tmp_path))
    store.keep("a", {"w": torch.rand(20)}, {"steps": 1})
    (entry,) = Cache(tmp_path).entries()
    (entry.path / file).write_bytes((entry.path / file).read_bytes()[:9])
    with pytest.warns(UserWarning, match=r"head-start-.* is damaged .* and is made anew"):
        assert store.find("a") is None
    assert not entry.path.exists()
