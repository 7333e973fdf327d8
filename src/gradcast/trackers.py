"""Where else the numbers of a run may go while it trains: TensorBoard, Weights & Biases.

The run directory has everything; a tracker is for people who watch all their training in one place. Numbers come a
task at a time, when they leave the device.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from gradcast.errors import GradcastError
from gradcast.specfile import nearest

Key = tuple[str, int]  # row and seed


@runtime_checkable
class Tracker(Protocol):
    """Hears of numbers of one row and seed."""

    def begin(self, directory: Path, settings: Mapping[str, Mapping[str, Any]]) -> None:
        """A run begins: where it is written, and each row's setting."""
        ...

    def scalars(self, row: str, seed: int, step: int, values: Mapping[str, float]) -> None:
        """Numbers of a training step, or (named ``accuracy/...``) of an evaluation after so many tasks."""
        ...

    def end(self) -> None:
        """The run is over, well or not."""
        ...


class TensorBoard:
    """Event files under ``tensorboard`` in the run directory: ``tensorboard --logdir runs``."""

    def __init__(self) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise GradcastError("TensorBoard is not installed; pip install 'gradcast[tensorboard]'") from None
        self.make: Callable[..., Any] = SummaryWriter
        self.writers: dict[Key, Any] = {}
        self.place = Path()

    def begin(self, directory: Path, settings: Mapping[str, Mapping[str, Any]]) -> None:
        """Writers are made when their first number comes."""
        self.place = directory / "tensorboard"

    def scalars(self, row: str, seed: int, step: int, values: Mapping[str, float]) -> None:
        """One curve a name; what an attempt that was stopped wrote of this step and later ones gives way."""
        if (row, seed) not in self.writers:
            self.writers[row, seed] = self.make(str(self.place / row / f"seed-{seed}"), purge_step=step)
        for name, value in values.items():
            self.writers[row, seed].add_scalar(name, value, step)

    def end(self) -> None:
        """Write out what is still in memory."""
        for writer in self.writers.values():
            writer.close()
        self.writers.clear()


class WeightsAndBiases:
    """A run there for each row and seed, grouped by run directory; ``WANDB_PROJECT`` and the like apply."""

    def __init__(self) -> None:
        try:
            import wandb
        except ImportError:
            raise GradcastError("Weights & Biases is not installed; pip install 'gradcast[wandb]'") from None
        self.wandb: Any = wandb
        self.runs: dict[Key, Any] = {}
        self.place, self.settings = Path(), dict[str, Mapping[str, Any]]()

    def begin(self, directory: Path, settings: Mapping[str, Mapping[str, Any]]) -> None:
        """Runs are made when their first number comes."""
        self.place, self.settings = directory, dict(settings)

    def scalars(self, row: str, seed: int, step: int, values: Mapping[str, float]) -> None:
        """Steps and evaluations count differently, so each number brings its own count."""
        if (row, seed) not in self.runs:
            self.runs[row, seed] = self.wandb.init(
                project=os.environ.get("WANDB_PROJECT", "gradcast"),
                group=self.place.name,
                name=f"{row}-seed-{seed}",
                config={**self.settings.get(row, {}), "seed": seed},
                dir=str(self.place),
                reinit="create_new",
            )
        evaluated = any(name.startswith("accuracy/") for name in values)
        self.runs[row, seed].log({**values, "tasks_done" if evaluated else "training_step": step})

    def end(self) -> None:
        """Send what is still here."""
        for run in self.runs.values():
            run.finish()
        self.runs.clear()


TRACKERS: dict[str, Callable[[], Tracker]] = {"tensorboard": TensorBoard, "wandb": WeightsAndBiases}


def tracker(name: str) -> Tracker:
    """By name."""
    if name not in TRACKERS:
        raise GradcastError(f"--log {name!r} is unknown{nearest(name, TRACKERS)}")
    return TRACKERS[name]()
