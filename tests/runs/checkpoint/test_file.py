import os
from pathlib import Path

import pytest
import torch

from gradcast.runs.checkpoint import file
from gradcast.runs.checkpoint.file import Content, DamagedError

CONTENT = Content({"steps": 3, "state": {"big": 2**100}}, {"a": torch.arange(5.0), "b": torch.tensor(True)})


def test_what_is_read_is_what_was_written_and_two_files_stay(tmp_path: Path) -> None:
    for steps in (8, 9, 10, 100):
        file.write(tmp_path, steps, CONTENT)
    assert [path.name for path in file.files(tmp_path)] == ["checkpoint-100.safetensors", "checkpoint-10.safetensors"]
    assert len(list(tmp_path.iterdir())) == 2
    found = file.read(file.files(tmp_path)[0])
    assert found.facts == CONTENT.facts
    assert torch.equal(found.tensors["a"], CONTENT.tensors["a"])
    assert found.tensors["b"].item() is True


def test_every_flipped_bit_and_every_cut_is_found(tmp_path: Path) -> None:
    path = file.write(tmp_path, 1, CONTENT)
    whole = path.read_bytes()
    for place in range(len(whole)):
        for damaged in (bytearray(whole), bytearray(whole[:place])):
            if len(damaged) == len(whole):
                damaged[place] ^= 1 << (place % 8)
            path.write_bytes(damaged)
            with pytest.raises(DamagedError):
                file.read(path)


def test_a_write_that_fails_leaves_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write(tmp_path, 1, CONTENT)

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        file.write(tmp_path, 2, CONTENT)
    assert [path.name for path in file.files(tmp_path)] == ["checkpoint-1.safetensors"]
    file.remove(tmp_path)
    assert list(tmp_path.iterdir()) == []
