"""Which way a network's passes are computed: the fastest that, on trial, gives what passes one after another give."""

import copy

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gradcast.errors import GradcastError, message_of, warn
from gradcast.networks.featured import Featured
from gradcast.replicas.passes import folded, one_by_one, trial, vmapped
from gradcast.replicas.passes.chance import Noise, Undropped
from gradcast.replicas.passes.trial import Outputs

# What a network may throw when its weights have two axes more than it expects.
FAILED = (folded.UnfoldableError, RuntimeError, ValueError, LookupError, TypeError, AttributeError, AssertionError)


def only_linear(module: nn.Module, x: Float[Tensor, "n *shape"]) -> bool:
    """Whether every weight belongs to a linear layer that a pass goes through once; nothing random, no state."""
    weights = {name: p.detach()[None] for name, p in module.named_parameters()}
    if any(True for _ in module.buffers()):
        return False
    try:
        with Undropped() as dropout:
            found, seen = folded.linear_layers(module, weights, x[:1])
        torch.autograd.grad(found.sum(), [layer.y for layer in seen])  # all lie on the way back
    except FAILED:
        return False
    if any(layer.x.dim() != 2 for layer in seen):
        return False
    used = [name for layer in seen for name in (layer.weight, layer.bias) if name is not None]
    return not dropout.met and sorted(used) == sorted(weights)


@torch.enable_grad()  # the first pass of a network may be one without
def choose(module: nn.Module, x: Float[Tensor, "n *shape"]) -> Outputs:
    """Try all on a few images: two replicas, two passes each, batch and running statistics.

    A network whose ``forward`` mixes images, or uses weights outside of layers that can be folded, shows here. One that
    draws random numbers by other means than dropout, or cannot be vmapped, goes one by one. The trial is in float64;
    in the network's own type where its code allows no other.
    """
    failure: Exception | None = None
    for dtype, error in ((torch.float64, 1e-7), (next(module.parameters()).dtype, 1e-3)):
        attempt = _Attempt(copy.deepcopy(module).to(dtype), x, dtype, error)
        with Undropped() as dropout:
            try:
                expected = attempt.plainly()
            except FAILED as problem:
                failure = failure or problem
                continue
            return _fastest(module, attempt, expected, dropout)
    assert failure is not None
    raise GradcastError(
        f"the network {called(module)} fails on images of shape {tuple(x.shape[1:])} "
        f"({message_of(failure)}); change it, or stream.size and stream.colour"
    )


class _Attempt:
    """The trial's network and images."""

    def __init__(self, module: nn.Module, x: Tensor, dtype: torch.dtype, error: float) -> None:
        self.module, self.error, self.device = module, error, x.device
        self.images = torch.rand(12, *x.shape[1:], dtype=dtype, device=x.device, generator=self.generator())
        self.drawn = False  # whether the network took random numbers

    def generator(self) -> torch.Generator:
        """The trial takes no number from anybody's stream."""
        return torch.Generator(self.device).manual_seed(0)

    def plainly(self) -> list[Tensor]:
        """The network as its author wrote it."""
        noise = Noise([self.generator() for _ in trial.SHARES])
        found = trial.plainly(self.module, self.images, noise)
        self.drawn = not torch.equal(noise.generators[0].get_state(), self.generator().get_state())
        return found

    def by(self, outputs: Outputs) -> list[Tensor]:
        """The same by one of the ways."""
        noise = Noise([self.generator() for _ in trial.SHARES]) if outputs is one_by_one.outputs else None
        return trial.by(outputs, self.module, self.images, noise)


def _fastest(module: nn.Module, attempt: _Attempt, expected: list[Tensor], dropout: Undropped) -> Outputs:
    name = called(module)
    if not trial.same(attempt.plainly(), expected, attempt.error):
        raise GradcastError(
            f"the network {name} gives other outputs for the same images: it draws random numbers "
            "that no seed of a run governs, or keeps something from pass to pass; let it draw from torch"
        )
    if not trial.same(attempt.by(one_by_one.outputs), expected, attempt.error):
        raise GradcastError(
            f"the network {name} behaves differently when its weights are given to it from outside: it assigns buffers "
            "anew, or computes twice as torch.utils.checkpoint does; update buffers in place, leave checkpoints out"
        )
    if attempt.drawn:
        return _slow(module, "it draws random numbers by other means than dropout")
    problem = "its passes would not be independent"
    for way in (folded.outputs, vmapped.outputs):
        dropout.met.clear()
        try:
            found = attempt.by(way)
        except FAILED as error:
            problem = message_of(error).split(". ")[0]  # vmap goes on at length
            continue
        if trial.same(found, expected, attempt.error):
            if not dropout.met or (way is folded.outputs and dropout.met == {len(attempt.images)}):
                return way
            problem = "it has dropout between layers that cannot be folded, or of something else than images"
    return _slow(module, problem)


def called(module: nn.Module) -> str:
    """What its author calls it."""
    return type(module.network if isinstance(module, Featured) else module).__name__


def _slow(module: nn.Module, problem: str) -> Outputs:
    warn(
        f"the network {called(module)} cannot be vmapped ({problem}): its replicas and memories run one by one, "
        "with the same results, only slower"
    )
    return one_by_one.outputs
