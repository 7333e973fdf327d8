"""Networks in two parts: frozen stages, and the rest, which is trained on what they give."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gradcast.errors import GradcastError
from gradcast.networks.featured import Featured

Trained = Literal["all", "head"] | int  # all weights, the output layer alone, or the last stages and the output layer


class Staged(nn.Module, ABC):
    """A network that runs its stages one after another; ``first`` and ``last`` leave out those around them."""

    first: int = 0
    last: int | None = None  # the stage to end before; None: all stages and the output layer run

    @abstractmethod
    def stages(self) -> Sequence[Sequence[str]]:
        """Names of the modules of each stage, in the order in which they run; the output layer is none of them."""

    def run_stages(self, x: Float[Tensor, "b *any"]) -> Tensor:
        """Pass through the stages between ``first`` and ``last``."""
        for names in self.stages()[self.first : self.last]:
            for name in names:
                x = self.get_submodule(name)(x)
        return x


class Parts(NamedTuple):
    """The frozen part of a network, and the part that is trained: its weights keep their names."""

    frozen: nn.Module
    trained: nn.Module


def split(network: nn.Module, train: Trained, outputs: int) -> Parts:
    """Cut a network in two: everything before the output layer is frozen, or everything before the last stages."""
    if train == "head":
        return _before_head(network, outputs)
    assert train != "all", "nothing would be frozen"
    if not isinstance(network, Staged):
        raise GradcastError(
            f"model.train = {train} counts stages, and {type(network).__name__} has none; set model.train to 'head' "
            "or 'all'"
        )
    names = network.stages()
    if train >= len(names):
        raise GradcastError(
            f"model.train = {train}, but {type(network).__name__} has {len(names)} stages before its output layer; "
            f"choose 1 to {len(names) - 1}, or 'all'"
        )
    cut = len(names) - train
    frozen, trained = copy.deepcopy(network), copy.deepcopy(network)
    frozen.last, trained.first = cut, cut
    early, late = ({name for stage in part for name in stage} for part in (names[:cut], names[cut:]))
    for name in early - late:
        _empty(trained, name)
    after = {name for name, _ in network.named_children() if not any(f"{own}.".startswith(f"{name}.") for own in early)}
    for name in (late | after) - early:
        _empty(frozen, name)
    return Parts(_still(frozen), trained)


def _before_head(network: nn.Module, outputs: int) -> Parts:
    """The output layer under its own name, and all that comes before it."""
    frozen = Features(copy.deepcopy(network), outputs)
    trained = OutputLayer(frozen.name, copy.deepcopy(network.get_submodule(frozen.name)))
    _empty(frozen.network, frozen.name)
    return Parts(_still(frozen), trained)


class Features(Featured):
    """Only what the output layer would see."""

    def forward(self, x: Float[Tensor, "n *shape"]) -> Float[Tensor, "n width"]:
        seen: list[Tensor] = []
        last = self.network.get_submodule(self.name)
        hook = last.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
        try:
            self.network(x)
        finally:
            hook.remove()
        return seen[-1]


class OutputLayer(nn.Module):
    """A network's output layer alone; its weights have the names that they have in the network."""

    def __init__(self, name: str, layer: nn.Module) -> None:
        super().__init__()
        self.name = name
        *path, last = name.split(".")
        owner: nn.Module = self
        for part in path:
            owner.add_module(part, nn.Module())
            owner = owner.get_submodule(part)
        owner.add_module(last, layer)

    def forward(self, x: Float[Tensor, "b width"]) -> Float[Tensor, "b k"]:
        logits: Tensor = self.get_submodule(self.name)(x)
        return logits


def _empty(network: nn.Module, name: str) -> None:
    """Take a module out of a network."""
    path, _, last = name.rpartition(".")
    setattr(network.get_submodule(path), last, nn.Identity())


def _still(network: nn.Module) -> nn.Module:
    """The network as it is evaluated, and without gradients: running statistics stay as they are."""
    return network.eval().requires_grad_(False)


def weights_of(frozen: nn.Module) -> dict[str, Tensor]:
    """Weights and buffers of a frozen part, under the names that they have in the whole network."""
    return (frozen.network if isinstance(frozen, Features) else frozen).state_dict()


@torch.no_grad()
def seen_through(frozen: nn.Module, x: Float[Tensor, "*any"], *, axes: int = 3, size: int = 256) -> Tensor:
    """What the frozen stages give for these images, a few at a time; an image has the last ``axes`` axes."""
    leading = x.shape[: x.dim() - axes]
    found: Tensor = torch.cat([frozen(part) for part in x.flatten(0, len(leading) - 1).split(size)])
    return torch.unflatten(found, 0, leading)
