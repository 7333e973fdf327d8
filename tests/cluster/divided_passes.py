"""A program for two ranks: passes divided over them beside the same in one process, in float64.

What they gave is written to the file that the last argument names, by the first rank.
"""

import sys
from pathlib import Path

import torch
from torch import Tensor, nn

from gradcast.cluster.ranks import Ranks
from gradcast.cluster.torchrun import joined
from gradcast.replicas.heads import Heads
from gradcast.replicas.passes.part import Part
from gradcast.replicas.replicas import Replicas

Found = dict[str, Tensor]
CLASSES = 4


class Attention(nn.Module):
    """No layer of it can be folded, and images do not meet."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.scale, self.last = nn.LayerNorm(16), nn.Parameter(torch.ones(3)), nn.Linear(48, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """From 3 x 4 x 4 to logits."""
        rows = self.norm(x.flatten(2)) * self.scale.view(3, 1)
        return self.last((rows @ rows.mT @ rows).flatten(1))


class Mixing(Attention):
    """Images meet, not by BatchNorm: no pass of it may be divided."""

    def forward(self, x: Tensor) -> Tensor:
        """Around the mean of the batch."""
        return super().forward(x - x.mean(0))


def convolutions() -> nn.Module:
    """BatchNorm and both kinds of dropout."""
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1),
        nn.BatchNorm2d(6),
        nn.ReLU(),
        nn.Dropout2d(0.3),
        nn.Conv2d(6, 5, 3, stride=2, padding=1),
        nn.BatchNorm2d(5),
        nn.Flatten(),
        nn.Dropout(0.4),
        nn.Linear(20, CLASSES),
    )


def dense() -> nn.Module:
    """BatchNorm of numbers."""
    return nn.Sequential(nn.Flatten(), nn.Linear(48, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, CLASSES))


NETWORKS = {"convolutions": convolutions, "dense": dense, "attention": Attention, "mixing": Mixing}
COUNTS = {"convolutions": (7, 2, 1), "dense": (7, 2), "attention": (7, 1), "mixing": (7,)}


def passes(name: str, count: int, ranks: Ranks | None) -> Found:
    """Outputs, gradients and buffers of two replicas: a training pass, three passes of memories, an evaluation."""
    torch.manual_seed(0)
    modules = [NETWORKS[name]() for _ in range(2)]
    model = Replicas(modules, Heads.even(CLASSES), device=torch.device("cpu"), dtype=torch.float64, ranks=ranks)
    drawn = torch.Generator().manual_seed(1)

    def images(*axes: int) -> Tensor:
        return torch.rand(*axes, 3, 4, 4, dtype=torch.float64, generator=drawn)

    made = model.forward(images(2, count), 0)
    slope = torch.rand(made.z.shape, dtype=torch.float64, generator=drawn)
    found = {"outputs": made.z, "gradient": made.pull(slope).flat}
    labels = torch.randint(CLASSES, (2, 3, count), generator=drawn)
    past = model.recall(images(2, 3, count), labels, torch.zeros(3, dtype=torch.long), task=0)
    used = torch.tensor([True, False])
    features = model.embed(images(2, count), used=used)
    found |= {"memories": past.rows(), "features": features.z, "pulled": features.pull(features.z).flat}
    seen = images(2, count).requires_grad_()
    answer = model.forward(seen, 0, statistics="separate")
    found["at images"] = answer.at_images(answer.z)
    return found | {"evaluated": model.outputs_of(images(count)), **model.buffers}


def said(ranks: Ranks) -> Found:
    """What ranks say to each other."""
    own, five = torch.full((2,), float(ranks.number + 1)), torch.arange(5).unsqueeze(1)
    part = Part(ranks, 1, 1, 5)
    facts = {
        "summed": ranks.summed(own),
        "gathered": ranks.gathered(five[ranks.share(5)], 5),
        "largest": torch.tensor(ranks.largest(7 * ranks.number)),
        "first": torch.tensor(ranks.from_first(lambda: 5 + ranks.number)),
        "part": part.gathered(part.own(five.double())),
    }
    with ranks.one_here_first():
        return facts


def main() -> None:
    """All of it."""
    with joined(print) as ranks:
        assert ranks is not None
        found = {f"said {name}": value for name, value in said(ranks).items()}
        for name in NETWORKS:
            for count in COUNTS[name]:
                for kind, own in (("one", None), ("two", ranks)):
                    own_found = passes(name, count, own)
                    found |= {f"{name} {count} {kind} {key}": value for key, value in own_found.items()}
        everybody = ranks.gathered(torch.cat([v.double().flatten() for v in found.values()]).unsqueeze(0), ranks.size)
        assert torch.equal(everybody[0], everybody[1])  # to the bit
        if ranks.first:
            torch.save(found, Path(sys.argv[-1]))
