"""A checkpoint's file: safetensors with JSON in its header and a digest of both, there as a whole or not at all."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from gradcast.errors import message_of
from gradcast.runs.safe_files import abandon, synchronise, write_tensors

KEPT = 2  # files: one is enough unless its disk damages it


class DamagedError(Exception):
    """The file is not what was written."""


@dataclass(frozen=True)
class Content:
    """What a checkpoint holds."""

    facts: Mapping[str, Any]  # anything that JSON can say
    tensors: Mapping[str, Tensor]


def files(folder: Path) -> list[Path]:
    """Checkpoints in a folder, newest first."""
    found = [(path, path.stem.removeprefix("checkpoint-")) for path in folder.glob("checkpoint-*.safetensors")]
    return [path for path, _ in sorted((each for each in found if each[1].isdigit()), key=lambda f: -int(f[1]))]


def write(folder: Path, steps: int, content: Content, before: Sequence[Path] = ()) -> Path:
    """Put a checkpoint in its place, after the files that it speaks of are safe on disk; older ones go."""
    path = folder / f"checkpoint-{steps}.safetensors"
    text = json.dumps(content.facts)
    for each in before:
        synchronise(each)
    write_tensors(path, content.tensors, {"facts": text, "digest": _digest(text, content.tensors)})
    synchronise(folder)
    for old in files(folder)[KEPT:]:
        old.unlink(missing_ok=True)
    return path


def read(path: Path) -> Content:
    """A checkpoint that is bit for bit what was written; DamagedError says why it is not."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 -- no mapping
        if metadata["digest"] != _digest(metadata["facts"], tensors):
            raise DamagedError("its digest does not fit")
        facts = json.loads(metadata["facts"])  # states of generators have long numbers
        if not isinstance(facts, dict):
            raise DamagedError("it says nothing")
        return Content(facts, tensors)
    except (SafetensorError, OSError, ValueError, KeyError, RecursionError, RuntimeError) as error:
        raise DamagedError(message_of(error)) from None


def remove(folder: Path) -> None:
    """All checkpoints, and what a write that was cut off left."""
    abandon(folder)
    for path in files(folder):
        path.unlink(missing_ok=True)


def _digest(text: str, tensors: Mapping[str, Tensor]) -> str:
    total = hashlib.blake2b(text.encode(), digest_size=16)
    for name in sorted(tensors):
        tensor = tensors[name]
        total.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        if tensor.numel():
            total.update(tensor.contiguous().view(-1).view(torch.uint8).numpy().data)
    return total.hexdigest()
