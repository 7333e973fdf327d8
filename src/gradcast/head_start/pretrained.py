"""The result of a head start alone, and its file: the weights before the output layer."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from gradcast.errors import GradcastError, message_of
from gradcast.runs.safe_files import abandon, write_tensors

TOLD = "head start"  # what the file's header says of it: one entry, since several have no fixed order


@dataclass(frozen=True, repr=False)
class Pretrained:
    """A network after a head start on unlabelled images.

    ``weights`` are those of the file: weights and running statistics of all layers before the output layer, which no
    head start trains. ``module`` is the whole network on the CPU in evaluation mode; its output layer is as it began.
    """

    weights: dict[str, Tensor]
    curve: list[tuple[int, float]]  # steps done, and the loss of the last of them
    module: nn.Module
    path: Path
    steps: int
    seed: int

    def __repr__(self) -> str:
        numbers = sum(tensor.numel() for tensor in self.weights.values())
        return (
            f"Pretrained({type(self.module).__name__}, {self.steps:,} steps, seed {self.seed}: {self.progress}; "
            f"{numbers:,} numbers in {self.path})"
        )

    @property
    def progress(self) -> str:
        """The first and the last loss that were kept, in words."""
        (early, first), (late, last) = self.curve[0], self.curve[-1]
        return f"loss {first:.3f} at step {early:,}, {last:.3f} at step {late:,}"


@dataclass(frozen=True)
class WeightFile:
    """What a file of a head start holds; ``told`` has its key, seed, steps and losses."""

    weights: dict[str, Tensor]
    told: dict[str, Any]


def write(path: Path, weights: Mapping[str, Tensor], told: Mapping[str, object], folder: Path) -> None:
    """Put the file in its place as a whole, by way of a folder beside it."""
    try:
        write_tensors(folder / path.name, dict(weights), {TOLD: json.dumps(told)})
        (folder / path.name).replace(path)
    except (SafetensorError, OSError) as error:
        abandon(folder)
        (folder / path.name).unlink(missing_ok=True)
        raise GradcastError(
            f"{path} cannot be written ({message_of(error)}); free some space or choose another --out, and the same "
            "command writes what is trained"
        ) from None


def find(path: Path, key: str) -> WeightFile | None:
    """The file of this head start, if it is there; what is another's is never overwritten."""
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            told = json.loads((file.metadata() or {})[TOLD])
            if told["key"] == key:
                return WeightFile({name: file.get_tensor(name) for name in file.keys()}, told)  # noqa: SIM118
    except (SafetensorError, OSError, KeyError, ValueError, TypeError):
        pass
    raise GradcastError(
        f"{path} is there already and holds something else than this head start; choose another --out, or move it away"
    )
