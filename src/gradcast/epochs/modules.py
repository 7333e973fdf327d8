"""Modules of one task alone: they come with it, are set aside after it, and never change again."""

from collections.abc import Callable, Sequence
from typing import ClassVar, TypeVar

from jaxtyping import Float
from torch import Tensor, nn

from gradcast.randomness import seeded
from gradcast.replicas import Replicas
from gradcast.stacking import stacked_weights

Network = TypeVar("Network", bound=nn.Module)


class TaskModules:
    """A model's first weights are shared by all tasks, the rest are those of the present one.

    ``network`` makes a new network out of torch's random numbers; those of its weights whose names begin with
    ``shared`` come first. Only they can forget. Of the rest a task may begin with new ones for some alone: those up to
    the last name that begins with ``renewed``; the others go on as the task before left them.
    """

    remembers: ClassVar[tuple[str, ...]] = ("own",)

    def __init__(
        self,
        model: Replicas,
        network: Callable[[], nn.Module],
        seeds: Sequence[int],
        *,
        shared: str,
        purpose: str,
        renewed: str = "",
    ) -> None:
        self.model, self.network, self.seeds, self.purpose = model, network, list(seeds), purpose
        first = [name for name in model.names if name.startswith(shared)]
        assert model.names[: len(first)] == first, "shared weights come first"
        self.alone = slice(sum(model.sizes[: len(first)]), model.theta.shape[1])  # where the rest lie
        ends = [model.places[name].stop for name in model.names if name.startswith(renewed)]
        self.renewed = slice(self.alone.start, max(ends))
        self.own: list[Tensor] = []  # those of every task that is over

    def begin(self, task: int) -> None:
        """New ones, but for the first task: the model has been made with its own."""
        if task > 0:
            self.model.theta[:, self.renewed] = self.fresh("task", task)[:, self.renewed]

    def finish(self) -> None:
        """Set those of the present task aside."""
        self.own.append(self.model.theta[:, self.alone].clone())

    def weights_for(self, task: int) -> Float[Tensor, "r p"]:
        """The present shared weights with the task's own; a task that is not over has the present ones."""
        if task >= len(self.own):
            return self.model.theta
        whole = self.model.theta.clone()
        whole[:, self.alone] = self.own[task]
        return whole

    def state(self) -> dict[str, Tensor]:
        """Those of every task that is over, by its number."""
        names = [name for name in self.model.names if self.model.places[name].start >= self.alone.start]
        return {
            f"task-{task}.{name}": row.view(len(own), *shape)
            for task, own in enumerate(self.own)
            for name, row, shape in zip(
                names,
                own.split(self.model.sizes[-len(names) :], dim=1),
                self.model.shapes[-len(names) :],
                strict=True,
            )
        }

    def fresh(self, *names: str | int) -> Float[Tensor, "r p"]:
        """Weights of new networks, all of them."""
        networks = made(self.network, self.seeds, self.purpose, *names)
        return stacked_weights(networks, self.model.theta.device, self.model.theta.dtype)[0]


def made(network: Callable[[], Network], seeds: Sequence[int], *names: str | int) -> list[Network]:
    """A network a seed, initialised from it and the names."""
    networks: list[Network] = []
    for seed in seeds:
        with seeded(seed, *names):
            networks.append(network())
    return networks
