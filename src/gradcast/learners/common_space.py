"""The common space of CFA: where features of a student are compared with those of its two teachers."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from gradcast.gradients.stacked_linear import uniform
from gradcast.randomness import seeded


class CommonSpace:
    """Linear layers without bias, one set a replica; ``weights`` are all that an optimizer moves.

    The student and each teacher have an aligning layer of their own, twice as wide as the features. Three residual
    blocks, which all share, lead to as many numbers as there are features. A decoder for each teacher leads back.
    """

    def __init__(self, features: int, seeds: Sequence[int], task: int, like: Tensor) -> None:
        own, wide = (features, features), 2 * features
        aligning, narrowing = [(wide, features)] * 3, (features, wide)
        shapes = [*aligning, narrowing, narrowing, *[own] * 9]
        drawn = []
        for seed in seeds:
            with seeded(seed, "common space", task):
                drawn.append([uniform(shape, fan_in=shape[1]).detach() for shape in shapes])
        rows = (torch.stack(each).to(device=like.device, dtype=like.dtype) for each in zip(*drawn, strict=True))
        self.weights = [weight.requires_grad_() for weight in rows]
        self.align, self.skip = self.weights[:3], self.weights[3]  # the student's first; the first block's other way
        pairs = list(zip(self.weights[4::2], self.weights[5::2], strict=True))
        self.blocks, self.decoders = pairs[:3], pairs[3:]

    def loss(
        self, student: Float[Tensor, "r n f"], teachers: Sequence[Float[Tensor, "r n f"]], beta: float
    ) -> Float[Tensor, " r"]:
        """``sum_i KL(h_i || h) + beta * sum_i MSE(decoded h_i, features_i)`` over the teachers i."""
        own, *others = (self._common(x, align) for x, align in zip([student, *teachers], self.align, strict=True))
        apart = [element_divergence(h, own) for h in others]
        decoded = (_two_layers(h, *weights) for h, weights in zip(others, self.decoders, strict=True))
        lost = [(made - x).square().mean((1, 2)) for made, x in zip(decoded, teachers, strict=True)]
        return torch.stack(apart).sum(0) + beta * torch.stack(lost).sum(0)

    def _common(self, x: Float[Tensor, "r n f"], align: Float[Tensor, "r o f"]) -> Float[Tensor, "r n f"]:
        h = (x @ align.mT).relu()
        for number, weights in enumerate(self.blocks):
            past = h if number else h @ self.skip.mT
            h = (_two_layers(h, *weights) + past).relu()
        return h


def element_divergence(label: Float[Tensor, "r n c"], z: Float[Tensor, "r n c"]) -> Float[Tensor, " r"]:
    """``KL(softmax(label) || softmax(z))``, a mean over images and columns."""
    logs, wanted = z.log_softmax(-1), label.log_softmax(-1)
    return (wanted.exp() * (wanted - logs)).mean((1, 2))


def _two_layers(x: Float[Tensor, "r n i"], inner: Tensor, outer: Tensor) -> Float[Tensor, "r n o"]:
    return (x @ inner.mT).relu() @ outer.mT
