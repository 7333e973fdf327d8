"""Where else the numbers of a run may go while it trains: TensorBoard, Weights & Biases.

The run directory has everything; a tracker is for people who watch all their training in one place. Numbers come a
task at a time, when they leave the device.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from gradcast.errors import GradcastError, message_of
from gradcast.specs.table import nearest

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

    def where(self) -> str:
        """How to look at the numbers of the run that was begun last, in a line."""
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

    def where(self) -> str:
        """The command that shows the numbers."""
        return f"TensorBoard: tensorboard --logdir {self.place}"


class WeightsAndBiases:
    """A run there for each row and seed, grouped by run directory; ``WANDB_PROJECT`` and the like apply.

    A run that was stopped goes on as the same run there: the file ``wandb-id`` beside its numbers has the name.
    """

    def __init__(self) -> None:
        try:
            import wandb
        except ImportError:
            raise GradcastError("Weights & Biases is not installed; pip install 'gradcast[wandb]'") from None
        self.wandb: Any = wandb
        self.mode: str = wandb.setup().settings.mode
        if self.mode == "online":  # a missing account is reported before anything is trained
            self._accepted(wandb.login)
        self.runs: dict[Key, Any] = {}
        self.address = ""
        self.drawn: set[tuple[Key, str]] = set()  # numbers whose horizontal axis is known there
        self.place, self.settings = Path(), dict[str, Mapping[str, Any]]()

    def begin(self, directory: Path, settings: Mapping[str, Mapping[str, Any]]) -> None:
        """Runs are made when their first number comes."""
        self.place, self.settings = directory, dict(settings)

    def scalars(self, row: str, seed: int, step: int, values: Mapping[str, float]) -> None:
        """Steps and evaluations count differently, so each number brings its own count."""
        if (row, seed) not in self.runs:
            self.runs[row, seed] = self._run(row, seed)
        run = self.runs[row, seed]
        axis = "tasks_done" if any(name.startswith("accuracy/") for name in values) else "training_step"
        for name in values:
            if ((row, seed), name) not in self.drawn:
                run.define_metric(name, step_metric=axis)
                self.drawn.add(((row, seed), name))
        run.log({**values, axis: step})

    def end(self) -> None:
        """Send what is still here."""
        for run in self.runs.values():
            run.finish()
        self.runs.clear()
        self.drawn.clear()

    def where(self) -> str:
        """The address of the newest run, beside which are the others; or what would send them there."""
        offline = f"not sent yet; wandb sync {self.place / 'wandb'}/offline-run-*"
        modes = {"online": self.address or "nothing new to send", "offline": offline}
        return f"Weights & Biases: {modes.get(self.mode, f'WANDB_MODE is {self.mode}, nothing is sent')}"

    def _accepted(self, call: Callable[..., Any], **options: Any) -> Any:  # noqa: ANN401 -- the package is optional
        try:
            return call(**options)
        except self.wandb.Error as error:
            remedy = "log in with 'wandb login', or set WANDB_MODE=offline and send them later"
            raise GradcastError(f"Weights & Biases takes no numbers ({message_of(error)}); {remedy}") from None

    def _run(self, row: str, seed: int) -> Any:  # noqa: ANN401 -- the package is optional
        file = self.place / row / f"seed-{seed}" / "wandb-id"
        known = file.read_text(encoding="utf-8").strip() if file.is_file() else ""
        run = self._accepted(
            self.wandb.init,
            project=os.environ.get("WANDB_PROJECT", "gradcast"),
            group=self.place.name,
            name=f"{row}-seed-{seed}",
            config={**self.settings.get(row, {}), "seed": seed},
            dir=str(self.place),
            id=known or None,
            resume="allow" if known else None,
            reinit="create_new",
            settings=self.wandb.Settings(console="off", silent=True),  # the display is ours
        )
        if self.mode == "online":
            self.address = run.url
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{run.id}\n", encoding="utf-8")
        return run


TRACKERS: dict[str, Callable[[], Tracker]] = {"tensorboard": TensorBoard, "wandb": WeightsAndBiases}


def tracker(name: str) -> Tracker:
    """The tracker of this name."""
    if name not in TRACKERS:
        raise GradcastError(f"--log {name!r} is unknown{nearest(name, TRACKERS)}")
    return TRACKERS[name]()
