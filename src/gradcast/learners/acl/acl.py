"""Adversarial continual learning as a learner of the loop: modules of every task, and their discriminator."""

from collections.abc import Callable, Sequence
from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gradcast.core import Batch, Metrics, TaskImages
from gradcast.devices import Place
from gradcast.gradients.cross_entropy import cross_entropy
from gradcast.gradients.sgd import Sgd
from gradcast.learners.acl.acl_step import AclStep
from gradcast.learners.acl.adversary import Adversary, features
from gradcast.learners.acl.discriminator import Discriminator
from gradcast.learners.acl.features import feature_map_of
from gradcast.learners.acl.judge_draws import JudgeDraws
from gradcast.learners.acl.rehearsal import Rehearsal
from gradcast.learners.acl.settings import AclSettings
from gradcast.memories.by_class import ClassMemory
from gradcast.networks.acl_network import AclNetwork
from gradcast.replicas.heads import Heads
from gradcast.replicas.replicas import Replicas
from gradcast.results.feature_map import FeatureMap
from gradcast.signals.policy import Policy
from gradcast.signals.pseudo import Attached
from gradcast.streams.task_data import TaskData
from gradcast.training.plateau_rates import RESET_FACTOR, PlateauRates, Reset
from gradcast.training.snapshot import Snapshot
from gradcast.training.step import Step
from gradcast.training.task_modules import TaskModules, made
from gradcast.training.trainer import Draw, Turn


class Acl:
    """The model holds the shared module and the private module and head of the present task, in this order.

    Those of earlier tasks are set aside when their task is over: only the shared module can forget. ``network`` makes a
    new network out of torch's random numbers. ``memory`` holds images of earlier tasks that are shown
    again; None: none are, as published. With heads of all tasks in the network (``HeadPerTask``) a batch may contain
    images of earlier tasks, as in the published code's memory: they pass the present private module and their own head.
    ``draws`` gives the discriminator's random numbers, by default from the seeds.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("training", "modules", "start", "task", "judging", "best")

    def __init__(
        self,
        network: Callable[[], AclNetwork],
        seeds: Sequence[int],
        settings: AclSettings | None = None,
        signals: Callable[[Replicas], Sequence[Attached]] | None = None,
        policy: Policy | None = None,
        *,
        place: Place,
        judging: PlateauRates | None = None,
        memory: ClassMemory | None = None,
        draws: JudgeDraws | None = None,
    ) -> None:
        self.network, self.seeds, self.settings = network, list(seeds), settings or AclSettings()
        self.model = replicas(network, seeds, place)
        renewed = "private." if self.model.heads.masked else ""  # a head for each task goes on
        self.modules = TaskModules(self.model, network, seeds, shared="shared.", purpose="acl", renewed=renewed)
        self.discriminator = Discriminator(
            self.model.heads.extra // 2,
            self.settings.discriminator_units,
            seeds,
            self.model.theta,
            decay=self.settings.discriminator_decay,
            draws=draws,
        )
        self.sgd = Sgd(momentum=self.settings.momentum, decay=self.settings.decay)
        rehearsal = None if memory is None else Rehearsal(memory, self.modules)
        self.adversary = Adversary(self.discriminator, self.settings, rehearsal)
        attached = () if signals is None else signals(self.model)
        update = Step(self.model, self.adversary, 0.0, attached, policy or Policy(), self.sgd)
        self.training = AclStep(update, self.adversary)
        self.judging = judging or PlateauRates(len(seeds), self.settings.discriminator_lr)
        self.task = 0
        self.start = Snapshot()  # what the task began with
        self.best = Snapshot()  # each discriminator at its lowest loss on the training images

    by_task, task_free = True, False

    @property
    def skips(self) -> bool:
        """Whether steps that are not finite are undone."""
        return self.training.update.skips

    @property
    def evaluated(self) -> Replicas:
        """The network that is evaluated: the model itself."""
        return self.model

    def begin(self, images: TaskImages) -> None:
        """A private module and a head for the task, a new discriminator, new optimizers."""
        everybody = torch.ones(self.model.count, dtype=torch.bool)
        self.task = task = images.task
        self.modules.begin(task)
        self.start.keep(self.trained(), everybody)
        self.discriminator.begin(task)
        self.best.forget()
        self.judging.begin()
        self.sgd.renew()
        self._renew_signals(everybody)

    def _renew_signals(self, which: Bool[Tensor, " r"]) -> None:
        for own in self.training.update.signals:
            own.signal.renew(which)

    def step(self, batch: Batch, draw: Draw, turn: Turn) -> Metrics:
        """All updates of one labelled batch; replicas that have stopped keep their discriminators too."""
        lr = turn.lr if isinstance(turn.lr, Tensor) else torch.full_like(self.model.theta[:, 0], turn.lr)
        if self.model.heads.masked:
            self.sgd.rest([self._idle(batch)])
        judge_lr = torch.where(lr > 0, self.judging.rates(lr), 0.0)
        return self.training(batch, draw, lr, judge_lr, turn)

    def _idle(self, batch: Batch) -> Bool[Tensor, "r p"]:
        """Heads that no image of the batch asks for."""
        found = torch.zeros_like(self.model.theta, dtype=torch.bool)
        for name, place in self.model.places.items():
            part, _, task, *_ = name.split(".")
            if part == "head":
                found[:, place] = (batch.each_task != int(task)).all(1, keepdim=True)
        return found

    @torch.no_grad()
    def loss(self, batch: Batch, parts: int = 1, theta: Float[Tensor, "r p"] | None = None) -> Metrics:
        """The weighted sum of all three losses, and each of them; with the model's weights or others."""
        outputs = self.model.everything(batch.x, statistics="frozen", theta=theta).z
        tasks = batch.each_task
        z = self.model.heads.own(outputs, tasks)
        _, told = self.adversary.losses(self.model, outputs, tasks, parts)
        weighed = self.settings.adversarial * told["adversarial"] + self.settings.orthogonal * told["orthogonality"]
        hits, entropy = (z.argmax(-1) == batch.y).sum(-1), cross_entropy(z, batch.y)[0]
        found = self.discriminator(features(self.model, outputs)[0]).argmax(-1) == tasks + 1
        own = {"classification": entropy, "discriminator_hits": found.sum(-1)}
        return {"loss": entropy + weighed, "hits": hits} | own | told

    def epoch_ended(self, train: Metrics, going: Bool[Tensor, " r"]) -> None:
        """The discriminator's learning rate follows its loss on the training images, and its best state is kept."""
        seen = self.judging.observe(train["adversarial"], going)
        self.best.keep(self.discriminator.state(), seen.improved)
        self.discriminator.sgd.renew(seen.dropped)

    def renew(self, which: Bool[Tensor, " r"]) -> None:
        """New optimizers of the model and of what the signal learns."""
        self.sgd.renew(which)
        self._renew_signals(which)

    def restart(self, which: Bool[Tensor, " r"], how: Reset) -> None:
        """The weights that the task began with, or in the first task others, and another discriminator."""
        self.start.put_back(self.trained(), which)
        chosen = which.to(self.model.theta.device)
        if self.task == 0:
            self.model.theta[chosen] = self.modules.fresh("again")[chosen]
        self.discriminator.restart(self.task, which)
        self.judging.restart(which, RESET_FACTOR)
        self.renew(which)
        if how == "reference":
            self.sgd.lose(chosen)
            self.discriminator.sgd.lose(chosen)

    def trained(self) -> dict[str, Tensor]:
        """Weights and running statistics; the discriminator's best epoch may be another one, see ``finish``."""
        return {"theta": self.model.theta, **self.model.buffers}

    def judged_by(self, task: int) -> range:
        """Tasks whose validation images judge an epoch: its own alone."""
        return range(task, task + 1)

    def state(self) -> dict[str, Tensor]:
        """Of model and signal, and of every task's private module and head."""
        return self.training.update.state() | self.modules.state()

    def finish(self, images: TaskImages) -> None:
        """Set the task's private module and head aside, and bring the best discriminator back."""
        self.best.put_back(self.discriminator.state(), torch.ones(self.model.count, dtype=torch.bool))
        self.modules.finish()

    def weights_for(self, task: int) -> Float[Tensor, "r p"]:
        """The present shared module with the task's own private module and head."""
        return self.modules.weights_for(task)

    def scorer(self) -> None:
        """The largest logit is the answer."""

    def feature_map(self, data: TaskData) -> FeatureMap | None:
        """Shared and private features of test images, for the first seed."""
        return feature_map_of(self.model, self.weights_for, data)


def replicas(network: Callable[[], AclNetwork], seeds: Sequence[int], place: Place, purpose: str = "model") -> Replicas:
    """Stacked networks; their outputs are logits, shared features and private features."""
    modules = made(network, seeds, "acl", purpose)
    tasks = modules[0].tasks
    heads = Heads.even(modules[0].classes, tasks, masked=tasks > 1, extra=2 * modules[0].latent)
    named = "" if purpose == "model" else purpose
    return Replicas(
        modules,
        heads,
        device=place.device,
        dtype=place.dtype,
        inner=place.inner,
        seeds=seeds,
        purpose=named,
        ranks=place.ranks,
    )
