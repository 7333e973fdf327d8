from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from gradcast.errors import GradcastError
from gradcast.head_start.pretrained import Pretrained, find, write

WEIGHTS = {"a.weight": torch.ones(2, 3)}
TOLD: dict[str, object] = {"key": "k", "seed": 0, "steps": 3, "loss": [[1, 2.5]]}


def test_it_says_what_it_is() -> None:
    made = Pretrained(WEIGHTS, [(30, 6.2), (6000, 4.125)], nn.Linear(2, 2), Path("w.safetensors"), 6000, 3)
    assert made.progress == "loss 6.200 at step 30, 4.125 at step 6,000"
    assert repr(made) == f"Pretrained(Linear, 6,000 steps, seed 3: {made.progress}; 6 numbers in w.safetensors)"


def test_what_is_written_is_found_under_its_key_alone(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    assert find(path, "k") is None
    beside = tmp_path / "beside"
    beside.mkdir()
    write(path, WEIGHTS, TOLD, beside)
    first = path.read_bytes()
    found = find(path, "k")
    assert found is not None
    assert torch.equal(found.weights["a.weight"], WEIGHTS["a.weight"])
    assert found.told == TOLD
    assert list(beside.iterdir()) == []
    with pytest.raises(GradcastError, match="holds something else"):
        find(path, "another")
    write(path, WEIGHTS, TOLD, beside)
    assert path.read_bytes() == first


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    save_file(WEIGHTS, tmp_path / "plain.safetensors")
    (tmp_path / "text.safetensors").write_text("mine")
    for name in ("plain", "text"):
        with pytest.raises(GradcastError, match="choose another --out, or move it away"):
            find(tmp_path / f"{name}.safetensors", "k")


def test_what_cannot_be_written_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "w.safetensors" / "full").mkdir(parents=True)  # a folder in its place
    beside = tmp_path / "beside"
    beside.mkdir()
    with pytest.raises(GradcastError, match=r"w\.safetensors cannot be written .* the same command writes"):
        write(tmp_path / "w.safetensors", WEIGHTS, TOLD, beside)
    assert [path.name for path in beside.iterdir()] == []
