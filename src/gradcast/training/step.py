"""One training step: the only place where learner and signals meet."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from gradcast.core import Batch, Feeds, Labelled, Learner, Metrics, Mixed, Preview, Terms
from gradcast.devices import to_device
from gradcast.gradients.cross_entropy import cross_entropy, divergence
from gradcast.gradients.gradient import Gradient
from gradcast.gradients.sgd import LearningRate, Sgd
from gradcast.randomness import resting
from gradcast.replicas.heads import ABSENT
from gradcast.replicas.passes.factors import Factors
from gradcast.replicas.replicas import Pass, Replicas
from gradcast.runs.checkpoint.state import generators
from gradcast.signals.policy import Policy
from gradcast.signals.pseudo import Attached, images_used, join, pseudo_accuracy, pseudo_gradient
from gradcast.training.undo import undoing


@dataclass
class Step:
    """Labelled gradient, the signals' gradient, the learner's constraint, SGD.

    The order of the passes (memories, labelled, unlabelled) is behaviour: BatchNorm's running statistics see it.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("count", "model", "learner", "signals", "sgd")
    model: Replicas
    learner: Learner
    lr: LearningRate
    signals: Sequence[Attached] = ()
    policy: Policy = field(default_factory=Policy)
    sgd: Sgd | None = None  # with momentum or weight decay; None: plain steps
    skips: bool = False  # whether a step that is not finite is undone
    count: int = field(default=0, init=False)  # steps begun
    name: str | None = field(default=None, init=False)  # of the coming step's random numbers; None: its number
    ramp: Float[Tensor, ""] | None = field(default=None, init=False)  # weight of ramped signals; None: 1

    def __call__(self, batch: Batch, unlabelled: Feeds = ()) -> Metrics:
        """Train on one labelled batch and, where there are any, unlabelled batches."""
        self.prepare(batch, unlabelled)
        return self.advance(batch, unlabelled)

    def at(self, name: str | None, lr: LearningRate, ramp: float | None = None) -> None:
        """The coming step has this name and these rates; where they are tensors they keep their place in memory."""
        self.name = name
        if isinstance(lr, Tensor):
            self.lr = self.lr.copy_(lr) if isinstance(self.lr, Tensor) else lr.clone()
        else:
            self.lr = lr
        if ramp is not None:
            value = to_device(torch.tensor(ramp, dtype=self.model.theta.dtype), self.model.theta.device)
            self.ramp = value if self.ramp is None else self.ramp.copy_(value)

    def prepare(self, batch: Batch, unlabelled: Feeds) -> None:
        """What the host decides before a step."""
        for network in self.networks():
            network.chance.begin(self.count if self.name is None else self.name)
        self.count += 1
        with resting(self._stopped(batch)):
            self.learner.prepare(self.model, batch)
        for own in self.signals:
            own.signal.prepare(batch, own.of(unlabelled))

    def _stopped(self, batch: Batch) -> list[np.random.Generator]:
        """The learner's generators of replicas that do not train any more: alone they would draw nothing."""
        if batch.going is None or batch.going.all():
            return []
        stopped = (~batch.going).nonzero().flatten().tolist()
        return [each[replica] for each in generators(self.learner) for replica in stopped]

    def state(self) -> dict[str, Tensor]:
        """Weights and buffers of the model and of what the signals learned, one row a replica."""
        learned: dict[str, Tensor] = {}
        for own in self.signals:
            join(learned, own.signal.state(), own.name)
        return named_state(self.model, learned)

    def kind(self, batch: Batch) -> Hashable:
        """What else than task and sizes decides which operations a step consists of."""
        optimizer = self.sgd is None or self.sgd.astray is None
        return self.learner.replay() is None, self.learner.kind(), optimizer

    def networks(self) -> list[Replicas]:
        """The model, and networks that the signals train beside it."""
        return [self.model, *(network for own in self.signals for network in own.signal.networks())]

    def advance(self, batch: Batch, unlabelled: Feeds) -> Metrics:
        """The rest, on the device alone; ``finite`` says whether loss and weights are, or were before it was undone."""
        if not self.skips:
            return self._advance(batch, unlabelled)
        things = [self.networks(), list(self.signals), self.learner, self.sgd]
        return undoing(lambda: self._advance(batch, unlabelled), things, self.model.count)

    def _advance(self, batch: Batch, unlabelled: Feeds) -> Metrics:
        self.learner.begin(self.model, batch)
        previews = [Preview(self.model, batch, each, self.lr) for each in unlabelled]
        metrics: Metrics = {}
        for own in self.signals if previews else ():
            join(metrics, own.signal.look(previews[own.feed]), own.name)
        labelled, gradient, loss, told = self._labelled(batch, previews)
        metrics = {"loss": loss, **metrics, **told}
        for own in self.signals:
            join(metrics, own.signal.learn(self.model, labelled), own.name)
        if self.signals:
            metrics["unlabelled"] = images_used(unlabelled, loss)
        if not unlabelled:
            metrics["projected"] = self._descend(gradient)
        elif self.policy.update == "joint":
            metrics |= self._joint(gradient, unlabelled, batch.task)
        else:
            metrics |= self._sequential(gradient, unlabelled, batch.task)
        metrics |= pseudo_accuracy(self.signals, unlabelled)
        self.learner.end(self.model)
        for own in self.signals:
            own.signal.end(self.model)
        sums = [network.theta.sum(1) for network in self.networks()]  # one sum, not a look at each
        metrics["finite"] = torch.isfinite(torch.stack([loss, *sums]).sum(0))
        return metrics

    def _labelled(
        self, batch: Batch, previews: Sequence[Preview]
    ) -> tuple[Labelled, Gradient, Float[Tensor, " r"], Metrics]:
        """The gradient is that of batch and replayed images together, the rest is of the batch alone."""
        replay = self.learner.replay()
        mixed, preview = self._mixed(previews)
        x, y = batch.x if mixed is None else mixed.x, batch.y
        tasks = batch.tasks
        if replay is not None:
            tasks = torch.cat([batch.each_task, replay.tasks], dim=1)
            x, y = torch.cat([x, replay.x], dim=1), torch.cat([y, replay.y], dim=1)
        x = self.learner.shown(self.model, x)
        statistics, featured = self.learner.statistics(), self.learner.wants_features
        made = self.model.forward(x, batch.task, tasks=tasks, featured=featured, statistics=statistics)
        size = batch.y.shape[1]
        z, judged = made.z[:, :size], made.z
        competing = self.learner.competing(self.model, batch)
        if competing is not None:
            own = z.masked_fill(~competing.unsqueeze(1), ABSENT)
            judged = torch.cat([own, made.z[:, size:]], dim=1)
        loss, dz = cross_entropy(judged[:, :size], batch.y) if mixed is None else divergence(z, mixed.label)
        whole = dz
        if replay is not None:
            whole = cross_entropy(judged, y)[1]
            if mixed is not None:
                whole[:, :size] = dz * (size / y.shape[1])
        width = self.model.featured.width if self.learner.wants_features else 0
        outputs, features = made.whole[..., width:], made.whole[..., :width] if width else None
        if (
            preview is not None
        ):  # signals and learner see the labelled images themselves, where mixtures took their place
            seen, plain = preview.labelled_pass
            used = preview.unlabelled.used.view(-1, 1, 1)
            z, dz = torch.where(used, seen.z, z), torch.where(used, plain, dz)
            outputs = torch.cat([torch.where(used, seen.whole, outputs[:, :size]), outputs[:, size:]], dim=1)
        labelled = Labelled(batch, z, dz, self.lr, outputs, replay, features)
        terms = self.learner.terms(self.model, labelled)
        gradient = made.pull(whole) if terms is None else _with_outputs(made, whole, terms, width)
        self.learner.watch(gradient)
        if terms is not None and terms.watched and terms.outputs is not None:
            rows = terms.outputs[:, :size] * (y.shape[1] / size)  # as if the loss were the mean over the batch alone
            labelled = replace(labelled, dz=dz + self.model.heads.slopes(rows, batch.each_task, batch.task))
        metrics: Metrics = {}
        for found in (terms, self.learner.lookahead(self.model, gradient, self.lr)):
            if found is not None:
                gradient = gradient if found.gradient is None else gradient + found.gradient
                metrics |= found.metrics
        return labelled, gradient, loss, metrics

    def _mixed(self, previews: Sequence[Preview]) -> tuple[Mixed | None, Preview | None]:
        """What takes the place of the labelled batch, if a signal has something."""
        for own in self.signals if previews else ():
            mixed = own.signal.mix_up(previews[own.feed])
            if mixed is not None:
                return mixed, previews[own.feed]
        return None, None

    def _joint(self, gradient: Gradient, unlabelled: Feeds, task: int) -> Metrics:
        pseudo, metrics = self._pseudo(gradient, unlabelled, task)
        if self.policy.project:
            return metrics | {"projected": self._descend(gradient + pseudo)}
        constrained, projected = self.learner.constrain(gradient)
        self._move(constrained + pseudo.flat, (gradient + pseudo).factors, projected)
        return metrics | {"projected": projected}

    def _sequential(self, gradient: Gradient, unlabelled: Feeds, task: int) -> Metrics:
        """Two updates; the second sees the logits of the updated model, and this step's constraints once more."""
        projected = self._descend(gradient)
        pseudo, metrics = self._pseudo(gradient, unlabelled, task)
        if self.policy.project:
            projected = projected | self._descend(pseudo)
        else:
            self._move(pseudo.flat, pseudo.factors)
        return metrics | {"projected": projected}

    def _pseudo(self, gradient: Gradient, unlabelled: Feeds, task: int) -> tuple[Gradient, Metrics]:
        """The signals' gradient under this step's policy and constraints."""
        past = self.learner.protected()
        return pseudo_gradient(
            self.signals,
            self.model,
            unlabelled,
            gradient,
            task=task,
            policy=self.policy,
            past=past,
            ramp=self.ramp,
        )

    def _descend(self, gradient: Gradient) -> Tensor:
        constrained, projected = self.learner.constrain(gradient)
        self._move(constrained, gradient.factors, projected)
        return projected

    def _move(self, gradient: Tensor, made_of: tuple[Factors, ...] | None, changed: Tensor | None = None) -> None:
        if self.sgd is None:
            self.model.step(gradient, self.lr, made_of, changed)
        else:
            rates = None if self.model.rates is None else [self.model.rates]
            self.sgd.step([self.model.theta], [gradient], self.lr, rates)


def _with_outputs(made: Pass, dz: Tensor, terms: Terms, width: int) -> Gradient:
    """The gradient of the loss with the learner's own terms of this pass, whose first columns are features."""
    if terms.outputs is None and terms.features is None:
        return made.pull(dz)
    whole = torch.zeros_like(made.whole)
    if terms.outputs is not None:
        whole[..., width:] = terms.outputs
    if terms.features is not None:
        whole[..., :width] = terms.features
    return made.pull(dz, whole)


def named_state(model: Replicas, learned: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A model's weights and buffers, and what was learned beside it, under the names that a run stores them by."""
    shared = {name: value.expand(model.count, *value.shape).contiguous() for name, value in model.frozen.items()}
    own = shared | model.parameters(model.theta) | model.buffers
    return {f"model.{name}": value for name, value in own.items()} | {
        f"signal.{name}": value for name, value in learned.items()
    }
