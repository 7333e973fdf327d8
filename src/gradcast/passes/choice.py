"""Which way a network's passes are computed: the fastest that, on trial, gives what passes one after another give."""

import copy
import warnings
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gradcast.errors import GradcastError, told
from gradcast.passes import folded, one_by_one, vmapped
from gradcast.passes.noise import Noise, Undropped

# What a network may throw when its weights have two axes more than it expects.
FAILED = (folded.UnfoldableError, RuntimeError, ValueError, LookupError, TypeError, AttributeError, AssertionError)


@runtime_checkable
class Outputs(Protocol):
    """Outputs of all passes; see ``folded.outputs``."""

    def __call__(
        self,
        module: nn.Module,
        weights: dict[str, Tensor],
        buffers: dict[str, Tensor],
        x: Tensor,
        noise: Noise | None = None,
    ) -> Tensor:
        """Buffers are updated in place."""
        ...


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


def choose(module: nn.Module, x: Float[Tensor, "n *shape"]) -> Outputs:
    """Try all in float64 on a few images: two replicas, two passes each, batch and running statistics.

    A network whose ``forward`` mixes images, or uses weights outside of layers that can be folded, shows here. One that
    draws random numbers by other means than dropout, or cannot be vmapped, goes one by one.
    """
    trial = copy.deepcopy(module).double()
    images = torch.rand(12, *x.shape[1:], dtype=torch.float64, device=x.device, generator=_generator(x.device))
    noise = Noise([_generator(x.device), _generator(x.device)])
    before = noise.generators[0].get_state()
    with Undropped() as dropout:
        try:
            expected = _trial(one_by_one.outputs, trial, images, noise)
            drawn = not torch.equal(noise.generators[0].get_state(), before)
            again = _trial(one_by_one.outputs, trial, images, Noise([_generator(x.device), _generator(x.device)]))
        except FAILED as error:
            raise GradcastError(
                f"the network {type(module).__name__} fails on images of shape {tuple(x.shape[1:])} "
                f"({told(error)}); change it, or stream.size and stream.colour"
            ) from None
        if not _same(again, expected):
            raise GradcastError(
                f"the network {type(module).__name__} gives other outputs for the same images: it draws random numbers "
                "that no seed of a run governs, or keeps something from pass to pass; let it draw from torch"
            )
        if drawn:
            return _slow(module, "it draws random numbers by other means than dropout")
        problem = "its passes would not be independent"
        for way in (folded.outputs, vmapped.outputs):
            dropout.met.clear()
            try:
                found = _trial(way, trial, images)
            except FAILED as error:
                problem = told(error).split(". ")[0]  # vmap goes on at length
                continue
            if _same(found, expected):
                if not dropout.met or (way is folded.outputs and dropout.met == {len(images)}):
                    return way
                problem = "it has dropout between layers that cannot be folded, or of something else than images"
    return _slow(module, problem)


def _slow(module: nn.Module, problem: str) -> Outputs:
    warnings.warn(
        f"the network {type(module).__name__} cannot be vmapped ({problem}): its replicas and memories run one by one, "
        "with the same results, only slower",
        stacklevel=2,
    )
    return one_by_one.outputs


def _same(found: Sequence[Tensor], expected: Sequence[Tensor]) -> bool:
    """To rounding, which is relative to a tensor's largest number."""
    pairs = [(a, b) for a, b in zip(found, expected, strict=True) if a.numel() or b.numel()]
    return all(
        a.shape == b.shape
        and torch.allclose(a, b, rtol=1e-7, atol=1e-9 * max(1.0, float(b.abs().nan_to_num().amax())), equal_nan=True)
        for a, b in pairs
    )


def _trial(outputs: Outputs, module: nn.Module, images: Tensor, noise: Noise | None = None) -> list[Tensor]:
    """Outputs, weight gradients and buffers, with batch statistics and then with running ones."""
    shares = torch.tensor([1.0, 0.9], dtype=torch.float64, device=images.device)  # two replicas that differ
    weights = {
        name: (shares.view(2, 1, *[1] * p.dim()) * p.detach()).expand(2, 2, *p.shape).requires_grad_()
        for name, p in module.named_parameters()
    }
    buffers = {name: torch.stack([b, b]) for name, b in module.named_buffers()}
    found: list[Tensor] = []
    for training in (True, False):
        module.train(training)
        y = outputs(module, weights, buffers, images, noise)
        factors = torch.linspace(-1, 1, y.numel(), dtype=y.dtype, device=y.device).view(y.shape)
        gradients = torch.autograd.grad((y * factors).sum(), list(weights.values()), allow_unused=True)
        found += [y.detach(), *(torch.zeros_like(y[0]) if g is None else g for g in gradients)]
        found += [b.double() for b in buffers.values()]
    return found


def _generator(device: torch.device) -> torch.Generator:
    """The trial takes no number from anybody's stream."""
    return torch.Generator(device).manual_seed(0)
