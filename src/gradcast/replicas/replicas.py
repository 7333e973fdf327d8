"""R copies of one network that train together: flat weights ``[R, P]``, stacked buffers, one forward pass for all."""

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, chain
from typing import ClassVar, Unpack

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn

from gradcast.cluster.ranks import Ranks
from gradcast.gradients.cross_entropy import class_slope
from gradcast.gradients.gradient import Gradient, PastGradients
from gradcast.gradients.sgd import LearningRate, descend
from gradcast.networks.featured import PREFIX, Featured
from gradcast.replicas.heads import Heads
from gradcast.replicas.pass_types import Backward, How, Pass, Statistics, buffers_for, updating_replicas
from gradcast.replicas.passes import folded
from gradcast.replicas.passes.chance import Chance
from gradcast.replicas.passes.divided import Divided
from gradcast.replicas.passes.factors import Factor, Factors
from gradcast.replicas.passes.first_layer_cache import Kept, Which
from gradcast.replicas.passes.ways import Ways
from gradcast.replicas.stacking import Pieces, stacked_weights, trained

__all__ = ["Pass", "Replicas", "Statistics"]


class Replicas:
    """The model: weights and buffers of R replicas of one architecture.

    ``theta`` is the truth; each parameter is a view of it, so that learners and signals see one flat gradient a
    replica. Weights and buffers keep their place in memory: every update is made in place.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("theta", "buffers", "chance", "kept")  # weights before what follows them

    def __init__(
        self,
        modules: Sequence[nn.Module],
        heads: Heads,
        *,
        device: torch.device,
        dtype: torch.dtype,
        inner: torch.dtype | None = None,
        seeds: Sequence[int] | None = None,
        purpose: str = "",
        ranks: Ranks | None = None,
    ) -> None:
        self.heads, self.ranks = heads, ranks  # ranks that passes are divided over
        self.chance = Chance(range(len(modules)) if seeds is None else seeds, device, purpose)
        self.inner = inner or dtype  # arithmetic between images and logits
        self.module = modules[0].to(device=device, dtype=dtype)  # the architecture; its own weights are never used
        self.names = [name for name, _ in self.module.named_parameters()]
        self.shapes = [parameter.shape for parameter in self.module.parameters()]
        self.sizes = [parameter.numel() for parameter in self.module.parameters()]
        ends = list(accumulate(self.sizes))
        self.places = {
            name: slice(end - size, end) for name, size, end in zip(self.names, self.sizes, ends, strict=True)
        }
        self.trained = trained(self.module)
        self.theta, self.buffers = stacked_weights(modules, device, dtype)
        self.ways = Ways(ranks, dtype, self.inner, whole=self.trained is None)
        self.kept = Kept(self.theta)
        self.frozen: Mapping[str, Tensor] = {}  # weights of stages before these, which all replicas share
        self.rates: Float[Tensor, " p"] | None = None  # factors on the learning rate; None: all are 1

    @property
    def count(self) -> int:
        """How many replicas, which are seeds, there are."""
        return self.theta.shape[0]

    @property
    def filtered(self) -> bool:
        """Whether the network has convolutions."""
        return any(len(shape) > 2 for shape in self.shapes)

    @property
    def capturable(self) -> bool:
        """Whether a step may become a CUDA graph, as far as the network is concerned."""
        return self.ways.capturable

    def parameters(self, theta: Float[Tensor, "*any p"]) -> dict[str, Tensor]:
        """Views of flat weights under the network's own names."""
        pieces = Pieces.apply(theta, self.sizes) if theta.requires_grad else theta.split(self.sizes, -1)  # type: ignore[no-untyped-call]
        return {
            name: piece.view(*theta.shape[:-1], *shape)
            for name, piece, shape in zip(self.names, pieces, self.shapes, strict=True)
        }

    def use_rates(self, factors: Sequence[float] | None) -> None:
        """Every weight has its own factor on the learning rate from now on; None: all have the same."""
        if factors is not None:
            pairs = zip(factors, self.sizes, strict=True)
            self.rates = torch.cat([self.theta.new_full((size,), factor) for factor, size in pairs])

    def forward(
        self,
        x: Float[Tensor, "r b *shape"],
        task: int,
        *,
        tasks: Int[Tensor, "r b"] | None = None,
        featured: bool = False,
        **how: Unpack[How],
    ) -> Pass:
        """A training pass to the logits that a loss in this task sees; ``tasks`` where images are of several.

        ``featured``: the whole of the pass holds features before the outputs.
        """

        def select(y: Tensor) -> Tensor:
            outputs = y.narrow(-1, self.featured.width, self.heads.outputs) if featured else y
            if tasks is None:
                return self.heads.columns(outputs, task)
            return self.heads.columns_at(outputs, tasks.unsqueeze(1), task)

        return self._forward(x, select, featured=featured, **how)

    def everything(self, x: Float[Tensor, "r b *shape"], **how: Unpack[How]) -> Pass:
        """The same to all columns of the output layer."""
        return self._forward(x, lambda y: y, **how)

    def side_by_side(self, x: Float[Tensor, "r k b *shape"], **how: Unpack[How]) -> Pass:
        """K such passes at once, each with its own statistics: ``z`` has all their images, gradients are summed."""
        return self._forward(x, lambda y: y, several=True, **how)

    def embed(self, x: Float[Tensor, "r b *shape"], **how: Unpack[How]) -> Pass:
        """The same to the features that the output layer sees."""
        width = self.featured.width
        return self._forward(x, lambda y: y.narrow(-1, 0, width), featured=True, **how)

    @cached_property
    def featured(self) -> Featured:
        """The network with its features beside its outputs."""
        return Featured(self.module, self.heads.outputs)

    def _forward(
        self,
        x: Float[Tensor, "r b *shape"],
        select: Callable[[Tensor], Tensor],
        *,
        statistics: Statistics = "update",
        used: Bool[Tensor, " r"] | None = None,
        theta: Float[Tensor, "r p"] | None = None,
        exact: bool = False,
        featured: bool = False,
        several: bool = False,
    ) -> Pass:
        self._train(statistics != "frozen")
        with buffers_for(self.buffers, updating_replicas(statistics, used, self.theta)) as buffers:
            passing = (x if several else x.unsqueeze(1)).to(self.theta.dtype if exact else self.inner)
            y, backward = self._pass(passing, buffers, unlabelled=used is not None, theta=theta, featured=featured)
        z = select(y)

        def pull(dz: Tensor, whole: Tensor | None = None) -> Gradient:
            ends, slopes = ([z], [dz]) if whole is None else ([z, y], [dz, whole])
            found = backward(ends, [own.reshape(end.shape) for own, end in zip(slopes, ends, strict=True)])
            if several:
                return Gradient(found.rows().sum(1))
            return Gradient(found.rows().squeeze(1), None if found.factors is None else (found.factors,))

        def at_images(dz: Tensor) -> Tensor:
            found = torch.autograd.grad(z, x, dz.reshape(z.shape))[0]
            way = self.ways.of(self.featured if featured else self.module, x)
            return way.summed(found, x.shape[1]) if isinstance(way, Divided) else found

        return Pass(z.detach().flatten(1, 2), y.detach().flatten(1, 2), pull, at_images)

    def step(
        self,
        gradient: Float[Tensor, "r p"],
        lr: LearningRate,
        made_of: Sequence[Factors] | None = None,
        changed: Bool[Tensor, " r"] | None = None,
    ) -> None:
        """Plain SGD; ``made_of`` says what the gradient is made of, but for the replicas where it was ``changed``."""
        current = self.kept.current
        descend(self.theta, gradient if self.rates is None else gradient * self.rates, lr)
        if current and not isinstance(lr, Tensor) and self.rates is None:
            self.kept.move(lr, made_of, changed)

    def recall(
        self,
        x: Float[Tensor, "r k m *shape"],
        y: Shaped[Tensor, "r k m *any"],
        tasks: Int[Tensor, " k"],
        *,
        task: int,
        slope: Callable[[Tensor, Tensor], Tensor] = class_slope,
        which: Which | None = None,
        statistics: Statistics = "update",
    ) -> PastGradients:
        """Gradient of each past task's mean loss on its memories, all tasks in one pass, in a step of ``task``.

        ``slope`` takes logits and ``y`` to the loss's gradient at the logits; with class labels it is cross entropy's.
        Each task is normalised by its own batch statistics (unless ``frozen``); updated running statistics end where
        passes one after another, in the order of ``tasks``, would have left them. Memories that are the same ``which``
        as in the step before cost less.
        """
        self._train(statistics != "frozen")
        with buffers_for(self.buffers, updating_replicas(statistics, None, self.theta)) as buffers:
            outputs, backward = self._pass(x.to(self.inner), buffers, self.kept.first(which))
        z = self.heads.columns_at(outputs, tasks.unsqueeze(1), task)
        found = backward([z], [slope(z.detach(), y)])
        if found.factors is not None:
            self.kept.renew(which, found.factors)
        return found

    @torch.no_grad()
    def outputs_of(self, x: Float[Tensor, "n *shape"]) -> Float[Tensor, "r n outputs"]:
        """What every replica says of images that all share, in evaluation mode; nothing is updated."""
        way = self.ways.chosen.get(self.module) if self.ranks is None else self.ways.of(self.module, x)
        if isinstance(way, Divided):
            return way.evaluated(self.modules, folded.channels_last(x))
        images = folded.channels_last(x) if way is folded.outputs else x.contiguous()
        return torch.stack([module(images) for module in self.modules])

    @cached_property
    def modules(self) -> list[nn.Module]:
        """Every replica as an ordinary module, for evaluation: weights and buffers are views of the stacked ones."""
        state = self.parameters(self.theta) | self.buffers
        found = [copy.deepcopy(self.module).eval() for _ in range(self.count)]
        for replica, module in enumerate(found):
            for name, tensor in chain(module.named_parameters(), module.named_buffers()):
                tensor.data = state[name][replica]
        return found

    def _train(self, training: bool) -> None:
        if self.module.training != training:
            self.module.train(training)

    def _pass(
        self,
        x: Float[Tensor, "r k m *shape"],
        buffers: dict[str, Tensor],
        first: Tensor | None = None,
        *,
        unlabelled: bool = False,
        theta: Float[Tensor, "r p"] | None = None,
        featured: bool = False,
    ) -> tuple[Float[Tensor, "r k m c"], Backward]:
        """Outputs, and what leads from a gradient of something made of them to one weight gradient a pass."""
        images = x.flatten(0, 2)
        module = self.featured if featured else self.module
        outputs = self.ways.of(module, images)
        theta = self.theta if theta is None else theta
        if module in self.ways.linear:
            return self._linear_pass(images, x.shape[:3], theta, first)
        theta = theta.detach().unsqueeze(1).expand(-1, x.shape[1], -1).requires_grad_(not x.requires_grad)
        noise = self.chance.unlabelled if unlabelled else self.chance.labelled
        weights = self.parameters(theta)
        if featured:
            weights, buffers = ({PREFIX + name: t for name, t in named.items()} for named in (weights, buffers))
        y = outputs(module, weights, buffers, images, noise).to(theta.dtype)

        def backward(ends: Sequence[Tensor], slopes: Sequence[Tensor]) -> PastGradients:
            found = torch.autograd.grad(ends, theta, slopes)[0]
            found = outputs.summed(found, x.shape[2]) if isinstance(outputs, Divided) else found
            return PastGradients(found if self.trained is None else found * self.trained)

        return y.unflatten(0, x.shape[:3]), backward

    def _linear_pass(
        self, images: Tensor, shape: torch.Size, theta: Tensor, first: Tensor | None
    ) -> tuple[Tensor, Backward]:
        """The same for networks of linear layers alone, where gradients need not be formed to be compared."""
        y, seen = folded.linear_layers(self.module, self.parameters(theta), images, first)

        def backward(ends: Sequence[Tensor], slopes: Sequence[Tensor]) -> PastGradients:
            slopes = torch.autograd.grad(ends, [layer.y for layer in seen], slopes)
            layers = [
                Factor(layer.x.view(*shape, -1), slope.view(*shape, -1), self.places[layer.weight], bias)
                for layer, slope in zip(seen, slopes, strict=True)
                for bias in [None if layer.bias is None else self.places[layer.bias]]
            ]
            return PastGradients(None, Factors(tuple(layers), self.theta.shape[1], seen[0].y.detach()))

        return y.unflatten(0, shape), backward
