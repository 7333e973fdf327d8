"""Random numbers inside a network: every replica has its own, whoever trains beside it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import dropout, dropout1d, dropout2d, dropout3d
from torch.overrides import TorchFunctionMode

from gradcast.randomness import derive

WHOLE_CHANNELS = (dropout1d, dropout2d, dropout3d)
DROPOUTS = (dropout, *WHOLE_CHANNELS)


class Noise:
    """One generator a replica, on the network's device."""

    checkpointed: ClassVar[tuple[str, ...]] = ("drawn",)

    def __init__(self, generators: Sequence[torch.Generator], renew: Callable[[], None] = lambda: None) -> None:
        self.generators, self.renew = list(generators), renew
        self.drawn = False  # whether anybody ever asked
        self.silent = False  # dropout drops nothing

    def asked(self) -> None:
        """Before numbers are drawn. Until somebody asks, steps renew nothing; then this one has to."""
        if not self.drawn:
            self.renew()
        self.drawn = True

    def dropped(self, x: Float[Tensor, "n *shape"], p: float, *, channels: bool) -> Float[Tensor, "n *shape"]:
        """Dropout of numbers, or of whole channels, of images that lie replica by replica."""
        return x * self.kept(x, p, channels=channels)

    def kept(self, x: Float[Tensor, "n *shape"], p: float, *, channels: bool) -> Float[Tensor, "n *_"]:
        """What dropout multiplies such images with; of ``x`` only the shape matters."""
        self.asked()
        kept = x.new_empty(*x.shape[:2], *[1] * (x.dim() - 2)) if channels else torch.empty_like(x)
        for mask, generator in zip(kept.chunk(len(self.generators)), self.generators, strict=True):
            _draw(mask, 1 - p, generator)
        return kept.div_(1 - p) if p < 1 else kept

    def uniform(self, count: int, numbers: int, like: Tensor) -> Float[Tensor, "r count numbers"]:
        """So many numbers from 0 to 1 for each of so many images."""
        self.asked()
        drawn = torch.empty(len(self.generators), count, numbers, dtype=like.dtype, device=like.device)
        for row, generator in zip(drawn, self.generators, strict=True):
            row.uniform_(generator=generator)
        return drawn

    def normal(self, shape: Sequence[int], like: Tensor) -> Float[Tensor, "r *shape"]:
        """Standard normal numbers of this shape for each replica."""
        self.asked()
        drawn = torch.empty(len(self.generators), *shape, dtype=like.dtype, device=like.device)
        for row, generator in zip(drawn, self.generators, strict=True):
            row.normal_(generator=generator)
        return drawn

    @contextmanager
    def alone(self, replica: int) -> Iterator[None]:
        """Torch's own generator takes this replica's numbers: for code that draws in ways unknown to us."""
        self.asked()
        generator = self.generators[replica]
        cuda = generator.device.type == "cuda"
        dropout = Undropped() if self.silent else nullcontext()
        with torch.random.fork_rng(devices=[generator.device] if cuda else []), dropout:
            if cuda:
                torch.cuda.set_rng_state(generator.get_state(), generator.device)
            else:
                torch.set_rng_state(generator.get_state())
            yield
            taken = torch.cuda.get_rng_state(generator.device) if cuda else torch.get_rng_state()
            generator.set_state(taken)


def _draw(mask: Tensor, share: float, generator: torch.Generator) -> None:
    """One with this probability, else zero, in place; a host's Bernoulli numbers take it more than twice as long."""
    if mask.is_cuda:
        mask.bernoulli_(share, generator=generator)
    else:
        mask.uniform_(generator=generator).lt_(share)


class Chance:
    """The random numbers of a step: those of memories and labelled images, and those of unlabelled images apart.

    Every step's are derived from seed and step, so they depend neither on the replicas beside nor on how many numbers
    an earlier step took: a replica that sits an unlabelled batch out has none to make up for.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("labelled", "unlabelled")

    def __init__(self, seeds: Sequence[int], device: torch.device, purpose: str = "") -> None:
        self.seeds, self.purpose = list(seeds), purpose  # networks of other purposes have other numbers
        self.step: int | str = 0
        self.labelled, self.unlabelled = (self._noise(what, device) for what in ("labelled", "unlabelled"))

    @property
    def generators(self) -> list[torch.Generator]:
        """The generators of labelled and unlabelled passes."""
        return self.labelled.generators + self.unlabelled.generators

    def begin(self, step: int | str) -> None:
        """A step is coming, a number or a name of its own; networks that draw nothing need nothing."""
        self.step = step
        if self.labelled.drawn or self.unlabelled.drawn:
            self.labelled.renew()
            self.unlabelled.renew()

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Within this context dropout drops nothing."""
        both = self.labelled, self.unlabelled
        try:
            for noise in both:
                noise.silent = True
            yield
        finally:
            for noise in both:
                noise.silent = False

    def _noise(self, what: str, device: torch.device) -> Noise:
        generators = [torch.Generator(device) for _ in self.seeds]

        def renew() -> None:
            for seed, generator in zip(self.seeds, generators, strict=True):
                generator.manual_seed(derive(seed, "dropout", what, self.step, *filter(None, [self.purpose])))

        renew()
        return Noise(generators, renew)


class Undropped(TorchFunctionMode):
    """While it is on, dropout drops nothing; ``met`` holds the lengths of what it would have dropped from."""

    def __init__(self) -> None:
        super().__init__()
        self.met: set[int] = set()

    def __torch_function__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """The first argument for dropout, the ordinary result for all else."""
        if func in DROPOUTS:
            self.met.add(len(args[0]) if args[0].dim() else 0)
            return args[0]
        return func(*args, **(kwargs or {}))
