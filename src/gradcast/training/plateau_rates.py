"""The learning rate drops where the loss has stopped falling, replica by replica, until it is too small to go on."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gradcast.devices import to_device

# What happens to a replica that is still at chance in its fifth epoch. fixed: it starts anew. reference: its weights
# are made anew, but its optimizers hold the old ones until the next drop of the learning rate. never: nothing.
Reset = Literal["fixed", "reference", "never"]

RESET_FACTOR = 10.0  # by which all its learning rates are divided then


@dataclass(frozen=True)
class Seen:
    """What an epoch meant for each replica."""

    improved: Bool[Tensor, " r"]
    dropped: Bool[Tensor, " r"]  # to a lower learning rate


class PlateauRates:
    """One learning rate a replica, on the host: decisions are made there."""

    checkpointed: ClassVar[tuple[str, ...]] = ("lr", "best", "patience", "going")

    def __init__(
        self, replicas: int, lr: float, *, factor: float = 3.0, smallest: float = 1e-6, patience: int = 5
    ) -> None:
        self.initial, self.factor, self.smallest, self.most = lr, factor, smallest, patience
        self.lr = torch.zeros(replicas, dtype=torch.float64)
        self.best = torch.zeros(replicas, dtype=torch.float64)
        self.patience = torch.zeros(replicas, dtype=torch.int64)
        self.going = torch.zeros(replicas, dtype=torch.bool)  # whose rate is still large enough
        self.begin()

    def begin(self) -> None:
        """All replicas as at the beginning of a task."""
        self.lr.fill_(self.initial)
        self.best.fill_(torch.inf)
        self.patience.fill_(self.most)
        self.going.fill_(True)

    def observe(self, loss: Float[Tensor, " r"], which: Bool[Tensor, " r"] | None = None) -> Seen:
        """An epoch's loss of these replicas, by default of all whose rate is still large enough.

        A replica that is named although its rate has reached the end may still improve; its rate is lowered no more.
        """
        looked_at = self.going if which is None else which.cpu()
        loss = loss.double().cpu()
        improved = looked_at & (loss < self.best)
        self.best = torch.where(improved, loss, self.best)
        self.patience = torch.where(improved, self.most, self.patience - looked_at.long())
        dropped = looked_at & self.going & (self.patience <= 0)
        self.lower(dropped, self.factor)
        self.patience = torch.where(dropped, self.most, self.patience)
        self.going = self.going & ~(dropped & (self.lr < self.smallest))
        return Seen(improved, dropped)

    def lower(self, which: Bool[Tensor, " r"], factor: float) -> None:
        """Divide the learning rate of these replicas."""
        self.lr = torch.where(which, self.lr / factor, self.lr)

    def restart(self, which: Bool[Tensor, " r"], factor: float) -> None:
        """These replicas go on at the initial rate divided by ``factor``; best loss and patience stay as they are."""
        self.lr = torch.where(which, self.initial / factor, self.lr)

    def rates(self, like: Tensor) -> Float[Tensor, " r"]:
        """The learning rates where ``like`` lies and in its type."""
        return to_device(self.lr.to(like.dtype), like.device)
