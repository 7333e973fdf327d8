"""A trial: what a network gives for a few images, plainly or by one of the ways to compute its passes."""

import copy
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from gradcast.replicas.passes.chance import Noise


@runtime_checkable
class Outputs(Protocol):
    """A way to compute all passes; see ``folded.outputs``."""

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


SHARES = (1.0, 0.9)  # of the network's weights: two replicas that differ
PASSES = 2


def plainly(module: nn.Module, images: Tensor, noise: Noise) -> list[Tensor]:
    """Outputs, weight gradients and buffers of copies of the module, pass by pass: with batch statistics, then not."""
    copies = [copy.deepcopy(module) for _ in SHARES]
    for share, own in zip(SHARES, copies, strict=True):
        for weight in own.parameters():
            weight.data.mul_(share)
    return [tensor for training in (True, False) for tensor in _plainly(copies, training, images, noise)]


def _plainly(copies: Sequence[nn.Module], training: bool, images: Tensor, noise: Noise) -> list[Tensor]:
    outputs: list[Tensor] = []
    for index, batch in enumerate(images.chunk(len(SHARES) * PASSES)):
        with noise.alone(index // PASSES):
            outputs.append(copies[index // PASSES].train(training)(batch))
    rows: list[list[Tensor]] = []
    for index, (y, factors) in enumerate(zip(outputs, _factors(outputs), strict=True)):
        weights = [weight for weight in copies[index // PASSES].parameters() if weight.requires_grad]
        rows.append(_gradients(y, weights, factors))
    gradients = [torch.stack(column).unflatten(0, (len(SHARES), PASSES)) for column in zip(*rows, strict=True)]
    buffers = zip(*(own.buffers() for own in copies), strict=True)
    return [torch.cat(outputs).detach(), *gradients, *(torch.stack(column).double() for column in buffers)]


def by(outputs: Outputs, module: nn.Module, images: Tensor, noise: Noise | None = None) -> list[Tensor]:
    """The same by one of the ways; gradients of weights that are not trained are left out."""
    shares = torch.tensor(SHARES, dtype=images.dtype, device=images.device)
    weights = {
        name: (shares.view(-1, 1, *[1] * p.dim()) * p.detach()).expand(-1, PASSES, *p.shape).requires_grad_()
        for name, p in module.named_parameters()
    }
    trained = [weights[name] for name, p in module.named_parameters() if p.requires_grad]
    buffers = {name: torch.stack([b] * len(SHARES)) for name, b in module.named_buffers()}
    found: list[Tensor] = []
    for training in (True, False):
        module.train(training)
        y = outputs(module, weights, buffers, images, noise)
        factors = _factors(y.chunk(len(SHARES) * PASSES))
        found += [y.detach(), *_gradients(y, trained, torch.cat(factors))]
        found += [buffer.double() for buffer in buffers.values()]
    return found


def same(found: Sequence[Tensor], expected: Sequence[Tensor], error: float) -> bool:
    """To rounding, which is relative to a tensor's largest number."""
    pairs = [(a, b) for a, b in zip(found, expected, strict=True) if a.numel() or b.numel()]
    return all(a.shape == b.shape and _close(a, b, error) for a, b in pairs)


def _close(a: Tensor, b: Tensor, error: float) -> bool:
    largest = max(1.0, float(b.abs().nan_to_num().amax()))
    return torch.allclose(a, b, rtol=error, atol=error / 100 * largest, equal_nan=True)


def _factors(outputs: Sequence[Tensor]) -> list[Tensor]:
    """What outputs are weighed with, so that all gradients differ."""
    size = sum(y.numel() for y in outputs)
    line = torch.linspace(-1, 1, size, dtype=outputs[0].dtype, device=outputs[0].device)
    return [part.view(y.shape) for part, y in zip(line.split([y.numel() for y in outputs]), outputs, strict=True)]


def _gradients(y: Tensor, weights: Sequence[Tensor], factors: Tensor) -> list[Tensor]:
    found = torch.autograd.grad((y * factors).sum(), weights, allow_unused=True)
    return [torch.zeros_like(w) if g is None else g for w, g in zip(weights, found, strict=True)]
