"""Replays trajectories of adversarial continual learning: every batch, every epoch's decisions, the test matrix."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from gradcast.core import Batch, Feeds, Metrics
from gradcast.devices import Place
from gradcast.errors import GradcastError
from gradcast.gradients.gradient_learner import GradientLearner
from gradcast.learners.acl.acl import Acl
from gradcast.learners.acl.settings import AclSettings
from gradcast.replicas.replicas import Replicas
from gradcast.signals.predicted import Predicted
from gradcast.signals.pseudo import Attached
from gradcast.training.capture import Advance
from gradcast.training.evaluate import OwnTests
from gradcast.training.loop import Loop
from gradcast.training.plateau import Plateau, mean_loss
from gradcast.training.schedule_tables import PlateauSpec
from gradcast.training.trainer import Draw, Turn
from gradcast.verify.acl_trace import (
    AclConfig,
    AclTrace,
    Departed,
    RecordedData,
    RecordedDraws,
    RecordedJudgeDraws,
    RecordedNetworks,
)
from gradcast.verify.trace import Arrays, Replay, Worst

CHANCE = 0.22  # training accuracy below which the reference starts anew, however many classes there are
USED = 2  # the file's word for a pool batch that was drawn and used
EVALUATION = ("classification", "accuracy", "adversarial", "discriminator_accuracy", "orthogonality", "loss")


def replay_acl(path: Path, arrays: Arrays, place: Place) -> Replay:
    """Train through our loop on the file's batches, from its initial weights; compare all that it records."""
    config = AclConfig.model_validate_json(str(arrays["config"]))
    _refuse(path, config)
    trace, worst = AclTrace(arrays, config, place), Worst()
    networks = RecordedNetworks(trace)
    learner = WatchedAcl(
        networks,
        [0],
        _settings(config),
        (lambda model: [Attached(_predicted(trace, model))]) if config.predicted else None,
        place=place,
        judging=_schedule(config).rates(1, config.d_lr),
        draws=RecordedJudgeDraws(trace),
    )
    data, draws = RecordedData(trace), RecordedDraws(trace) if config.predicted else None
    schedule = Plateau(data, learner, _schedule(config), batch=config.batch, lr=config.e_lr)
    loop = Loop(data, learner, schedule, OwnTests(data, drop_last=False), draws)
    watch = Watch(trace, learner, networks, data, worst)
    learner.watch = watch
    try:
        loop.run([watch])
        if watch.count != trace.steps:
            raise Departed(f"{trace.steps} batches, ours ends after {watch.count}")
    except Departed as error:
        worst.difference, worst.where = float("inf"), str(error)
    return Replay(path, watch.count, worst.difference, worst.where, tolerance=1e-9)


def _refuse(path: Path, config: AclConfig) -> None:
    """Files of what our code does not do."""
    if config.idle_gradients == "zero":
        raise GradcastError(
            f"{path} cannot be replayed: in it modules of earlier tasks go on decaying (idle_gradients = 'zero'), and "
            "here they rest when their task is over"
        )


def _settings(config: AclConfig) -> AclSettings:
    return AclSettings(
        adversarial=config.adv,
        orthogonal=config.orth,
        reversal=config.lam,
        difference=config.diff == "yes",
        updates=config.s_step,
        judgements=config.d_step,
        momentum=config.mom,
        decay=config.e_wd,
        discriminator_units=config.units,
        discriminator_lr=config.d_lr,
        discriminator_decay=config.d_wd,
        discriminator_scale=config.discriminator_scale,
        private_input=config.private_input,
    )


def _schedule(config: AclConfig) -> PlateauSpec:
    made = PlateauSpec(
        epochs=config.epochs,
        validation_batch=config.valid_batch,
        factor=config.lr_factor,
        smallest=config.lr_min,
        patience=config.lr_patience,
        reset="reference" if config.chance_reset else "never",
    )
    return made.model_copy(update={"above_chance": CHANCE - 1 / config.classes})  # below zero with few classes


def _predicted(trace: AclTrace, model: Replicas) -> Predicted:
    values, config = list(trace.weights("learner_init").values()), trace.config
    learner = GradientLearner(
        config.classes,
        [weight.shape[0] for weight in values[:-2:2]],
        alpha=config.alpha,
        loss_scale=config.loss_scale,
        momentum=config.mom,
        decay=config.e_wd,
        activation="none",
        bias=True,
        replicas=(1,),
    ).to(model.theta)
    for place, value in zip(_layers(learner), values, strict=True):
        place.data = value.view(place.shape)
    return Predicted(learner)


def _layers(learner: GradientLearner) -> list[Tensor]:
    """Weight, bias, weight, bias, ..."""
    return [each for layer in zip(learner.weights, learner.biases, strict=True) for each in layer]


class WatchedAcl(Acl):
    """The learner as it is, compared after every labelled batch: before the epoch's end may change it."""

    watch: "Watch"

    def step(self, batch: Batch, draw: Draw, turn: Turn) -> Metrics:
        """Take the step as always, then compare it with the file."""
        renewed = not any(bool(velocity.any()) for velocity in self.sgd.velocity)
        metrics = super().step(batch, draw, turn)
        self.watch.stepped_on(batch, turn, rates=(float(turn.lr), float(self.judging.lr)), renewed=renewed)
        return metrics


class Watch:
    """Compares the learner with the file; what each update says is noted on its way."""

    def __init__(
        self, trace: AclTrace, learner: Acl, networks: RecordedNetworks, data: RecordedData, worst: Worst
    ) -> None:
        self.trace, self.learner, self.networks, self.data, self.worst = trace, learner, networks, data, worst
        self.count = 0  # labelled batches so far
        self.logits: list[Tensor] = []  # of this batch, before each update
        self.updates: list[Metrics] = []  # of this batch
        self.judged: list[Metrics] = []
        self.totals: list[tuple[int, float]] = []  # images and mean loss of every batch of the epoch
        step = learner.training
        step.advance, step.judge = self._updating(step.advance), self._judging(step.judge)

    def _updating(self, advance: Advance) -> Advance:
        def noted(batch: Batch, unlabelled: Feeds = ()) -> Metrics:
            self.logits.append(self.learner.model.forward(batch.x, batch.task, tasks=batch.each_task).z[0])
            self.updates.append(dict(advance(batch, unlabelled)))
            return dict(self.updates[-1])

        return noted

    def _judging(self, judge: Advance) -> Advance:
        def noted(batch: Batch, unlabelled: Feeds = ()) -> Metrics:
            self.judged.append(dict(judge(batch, unlabelled)))
            return dict(self.judged[-1])

        return noted

    def stepped_on(self, batch: Batch, turn: Turn, *, rates: tuple[float, float], renewed: bool) -> None:
        """A labelled batch is done."""
        steps, at, where = self.trace.arrays, self.count, f"step {self.count}"
        if at >= self.trace.steps:
            raise Departed(f"{self.trace.steps} batches, ours goes on")
        here = (turn.task, turn.epoch, turn.place)
        if here != tuple(int(steps[f"steps/{name}"][at]) for name in ("task", "epoch", "batch")):
            raise Departed(f"task, epoch and batch of {where}, ours has {here}")
        for name, ours in zip(("e_lr", "d_lr", "new_theta_optimizer"), (*rates, float(renewed)), strict=True):
            self._number(ours, float(steps[f"steps/{name}"][at]), f"{name} in {where}")
        self._losses(batch, where)
        key = f"{at:03d}"
        self.worst.add(self._params(), steps.get(f"params/{key}"), f"params after {where}")
        self.worst.add(self._judge(), steps.get(f"discriminator/{key}"), f"discriminator after {where}")
        for own in self.learner.training.update.signals:
            assert isinstance(own.signal, Predicted)
            h = torch.cat([each.detach().flatten() for each in _layers(own.signal.learner)])
            self.worst.add(h, steps.get(f"learner/{key}"), f"learner after {where}")
        self.count += 1

    def _losses(self, batch: Batch, where: str) -> None:
        """What every update of this batch said."""
        config, key = self.trace.config, f"{self.count:03d}"
        self.worst.add(torch.stack(self.logits), self.trace.arrays[f"logits/{key}"], f"logits in {where}")
        names = ("loss", "adversarial", "orthogonality", "fitness")[: 4 if config.predicted else 3]
        ours = torch.tensor([[float(update[name]) for name in names] for update in self.updates], dtype=torch.float64)
        total = ours[:, :3] @ torch.tensor([1, config.adv, config.orth], dtype=torch.float64)
        self.totals.append((batch.y.shape[1], float(total.mean())))
        ours[:, 3:] /= config.loss_scale
        for column, name in enumerate(names):
            self.worst.add(ours[:, column], self.trace.arrays[f"losses/{key}"][:, column], f"{name} in {where}")
        if config.predicted:
            used = torch.tensor([float(update["unlabelled"] > 0) for update in self.updates], dtype=torch.float64)
            theirs = (self.trace.arrays[f"drawn/{key}"] == USED).astype(np.float64)
            self.worst.add(used, theirs, f"use of unlabelled images in {where}")
        judged = torch.tensor([float(each["discriminator_loss"]) for each in self.judged], dtype=torch.float64)
        both = config.discriminator_scale * self.trace.arrays[f"discriminator_losses/{key}"].sum(1)
        self.worst.add(judged, both, f"discriminator's loss in {where}")
        for each in (self.logits, self.updates, self.judged):
            each.clear()

    def stepped(self, step: int, task: int, metrics: Metrics) -> None:
        """After the last batch of an epoch: its evaluations."""
        if "train_loss" not in metrics:
            return
        epoch, steps = int(self.trace.arrays["steps/epoch"][step]), self.trace.arrays
        for part, key in (("train", "train_eval"), ("validation", "valid_eval")):
            found = {name: metrics[f"{part}_{name}"] for name in EVALUATION}
            self._evaluation(found, steps[f"{key}/{task}"][epoch], f"{part} evaluation of epoch {epoch}, task {task}")
        loss = sum(images * mean for images, mean in self.totals) / sum(images for images, _ in self.totals)
        self._number(loss, steps[f"epoch_loss/{task}"][epoch], f"loss of epoch {epoch}, task {task}")
        self.totals.clear()

    def trained(self, task: int) -> None:
        """The best states are back."""
        steps = self.trace.arrays
        self.worst.add(self._params(), steps[f"after_task/{task}"], f"params after task {task}")
        self.worst.add(self._judge(), steps[f"after_task_discriminator/{task}"], f"discriminator after task {task}")

    def evaluated(
        self, tasks_done: int, accuracy: Float[Tensor, "r tasks"], unknown: Float[Tensor, "r tasks"] | None = None
    ) -> None:
        """A row of the test matrix: all losses, and the accuracies that the loop itself found."""
        for task in range(tasks_done):
            recorded = self.trace.arrays[f"test/{tasks_done - 1}"][task]
            where = f"test of task {task} after task {tasks_done - 1}"
            theta = self.learner.weights_for(task)
            found = mean_loss(
                self.data,
                lambda batch, parts, theta=theta: self.learner.loss(batch, parts, theta),  # type: ignore[misc]
                [self.data.test(task)],
                self.trace.config.batch,
            )
            self._evaluation(found, recorded, where)
            self._number(100 * float(accuracy[0, task]), recorded[1], f"accuracy in {where}")

    def _evaluation(self, found: Metrics, recorded: np.ndarray, where: str) -> None:
        for name, theirs in zip(EVALUATION, recorded, strict=True):
            self._number(float(found[name]) * (100 if name.endswith("accuracy") else 1), theirs, f"{name} in {where}")

    def _number(self, ours: float, theirs: float, where: str) -> None:
        self.worst.add(torch.tensor([ours], dtype=torch.float64), np.array([theirs], dtype=np.float64), where)

    def _params(self) -> Tensor:
        """Weights of all tasks in the file's order: those to come as they were made, those that are over set aside."""
        learner, found = self.learner, dict(self.networks.latest)
        tasks: Sequence[int] = [*range(len(learner.modules.own)), learner.task]
        for task in tasks:
            own = learner.weights_for(task)[0].split(learner.model.sizes)
            found |= dict(zip(self.trace.names(task), own, strict=True))
        return torch.cat([weight.flatten() for weight in found.values()])

    def _judge(self) -> Tensor:
        layers = [weight[0] for weight in self.learner.discriminator.weights]
        return torch.cat([part.flatten() for layer in layers for part in (layer[:, :-1], layer[:, -1])])
