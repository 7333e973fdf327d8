"""What a head start is made of, and how its weights are taken over."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gradcast.data.images import Shape
from gradcast.devices import Place
from gradcast.gradients.optimizer import AdamW, Optimizer
from gradcast.gradients.sgd import Sgd
from gradcast.head_start.head_start_table import HeadStartSpec
from gradcast.head_start.pretrain_step import PretrainStep
from gradcast.head_start.pretraining import Pretraining
from gradcast.head_start.probe import Probe
from gradcast.networks.featured import Featured
from gradcast.replicas.heads import Heads
from gradcast.replicas.replicas import Replicas
from gradcast.signals.pseudo import Attached
from gradcast.signals.registry import SIGNALS
from gradcast.specs import build
from gradcast.specs.context import Context
from gradcast.streams.draws import Feed
from gradcast.streams.named_augmentations import all_named_by, own_code
from gradcast.streams.own_pool import OwnImages
from gradcast.streams.pool import Pool
from gradcast.streams.scale import Scale
from gradcast.training.schedule_tables import ConstantSpec

PART = ("head start",)  # the name of its random numbers
RESULTS = 2  # raised when the same course trains to other numbers


@dataclass(frozen=True)
class Course:
    """Network, pool and settings; ``identity`` tells the pool and how its images are shown from all others."""

    spec: HeadStartSpec
    network: Callable[[], nn.Module]
    heads: Heads
    shape: Shape  # of an image as the network sees it
    scale: Scale
    pool: Pool | OwnImages
    place: Place
    identity: str

    def model(self, seeds: Sequence[int]) -> Replicas:
        """The networks as these seeds begin with them."""
        return build.replicas(self.network, self.heads, seeds, self.place, "model")

    def prepare(self, seeds: Sequence[int], probe: Probe | None) -> Pretraining:
        """Everything that these seeds' head starts need."""
        spec, model = self.spec, self.model(seeds)
        rate = torch.zeros(len(seeds), device=self.place.device, dtype=self.place.dtype)
        context = Context(
            seeds=seeds,
            tasks=1,
            classes=self.heads.width,
            batch=spec.batch,
            lr=rate,
            data=None,
            scale=self.scale,
            shape=self.shape,
            model=model,
            network=self.network,
            another=lambda purpose: build.replicas(self.network, self.heads, seeds, self.place, purpose),
            epoch=lambda task: spec.steps,
            schedule=ConstantSpec(),
            optimizer=self._optimizer,
        )
        wanted = build.feeds_wanted([(0, build.views(own)) for own in spec.signal])
        numbers = build.feed_numbers([(0, build.views(own)) for own in spec.signal])
        feeds = [Feed(self.pool, seeds, spec.batch, own, number=n) for n, own in enumerate(wanted.values())]
        for feed in feeds:
            feed.begin(0, PART)
        signals = [
            Attached(SIGNALS[own.name].build(own, context), number, own.name)
            for own, number in zip(spec.signal, numbers, strict=True)
        ]
        return Pretraining(spec, PretrainStep(model, signals, self._optimizer(), rate), feeds, seeds, probe)

    def _optimizer(self) -> Optimizer:
        spec = self.spec
        if spec.optimizer == "adamw":
            return AdamW(decay=spec.weight_decay)
        return Sgd(momentum=spec.momentum, decay=spec.weight_decay)

    def keys(self, seeds: Sequence[int]) -> list[str]:
        """What decides each seed's result, in a few letters: settings, pool, arithmetic, and its initial weights."""
        device, inner = self.place.device.type, self.place.inner
        rounds = device == "cuda" and torch.backends.cudnn.allow_tf32
        shown = [step.name for step in self.pool.steps]
        code = own_code([*shown, *all_named_by(*self.spec.signal)])
        known = (RESULTS, self.spec.model_dump_json(), self.identity, device, str(self.place.dtype), str(inner), rounds)
        facts = (*known, code) if code else known
        begun = sorted(features(self.model(seeds)).items())
        found = []
        for replica, seed in enumerate(seeds):
            digest = hashlib.blake2b(repr((*facts, seed)).encode(), digest_size=8)
            for name, rows in begun:
                digest.update(name.encode() + rows[replica].detach().cpu().contiguous().numpy().tobytes())
            found.append(digest.hexdigest())
        return found


def features(model: Replicas) -> dict[str, Tensor]:
    """Weights and statistics before the output layer, one row a replica: views of the model's own."""
    last = Featured(model.module, model.heads.outputs).name
    named = model.parameters(model.theta) | model.buffers
    return {name: rows for name, rows in named.items() if not name.startswith(f"{last}.")}


@torch.no_grad()
def take_over(model: Replicas, weights: Mapping[str, Tensor]) -> None:
    """The model goes on from these weights and statistics; its output layer stays as it is."""
    own = features(model)
    for name, rows in weights.items():
        if name not in model.frozen:
            own[name].copy_(rows)
