"""Graphs need a GPU; without one only the choice between step and graphs is tested."""

from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from gradcast.core import Batch, Feeds, Metrics, Signal, Unlabelled
from gradcast.devices import Place
from gradcast.gradients.gradient_learner import GradientLearner
from gradcast.gradients.length import Length
from gradcast.learners.agem import Agem
from gradcast.learners.dcl import dcl
from gradcast.learners.finetune import Finetune
from gradcast.learners.gem import Gem
from gradcast.learners.registry import LEARNERS
from gradcast.memories.by_class import ClassMemory
from gradcast.memories.ring import TaskMemory
from gradcast.networks import MLP, SlimResNet18
from gradcast.randomness import seeded, torch_generator
from gradcast.replicas.heads import Heads, HeadsKind
from gradcast.replicas.replicas import Replicas
from gradcast.runs.prepared import PreparedRun
from gradcast.signals.noise import Noise
from gradcast.signals.policy import Policy
from gradcast.signals.predicted import Predicted
from gradcast.signals.pseudo import Attached
from gradcast.signals.registry import SIGNALS
from gradcast.specs import build
from gradcast.specs.context import Context
from gradcast.specs.text import load
from gradcast.streams.scale import Scale
from gradcast.training.capture import Captured, fastest
from gradcast.training.step import Step
from tests.helpers import OPTIONS, needs_gpu, replicas, signal_and_pool
from tests.training.scene import SHELF, scheduled, task_data, weights_of

pytestmark = pytest.mark.usefixtures("known_passes")
MATCHING = ("fixmatch", "mutexmatch", "mutexmatch;signal.k=2", "icl")
AUGMENTED = "der-plus-plus;learner.augment=['shift', 'flip']"
X_DER = "x-der;learner.augment=['shift', 'flip'];model.heads=all"
TNAR = "tnar;signal.latent=4;signal.widths=[5];signal.solver_steps=1;signal.warm_up=2"
ONLINE = "ewc;learner.form=online;learner.interval=3"


def test_a_cpu_takes_the_step_as_it_is() -> None:
    step = Step(replicas(1), Finetune(), 0.1)
    assert fastest(step) is step


def trained(name: str, options: dict[str, object], policy: Policy, *, graphs: bool) -> tuple[Tensor, list[Tensor]]:
    """Three tasks on the GPU, the last batch of each short; some steps have unlabelled images."""
    with seeded(0, "model"):
        modules = [MLP([6, 5, 9], norm="batch") for _ in range(2)]
        h = GradientLearner(3, (5,), alpha=0.5, replicas=(2,), **options).to("cuda", torch.float64)  # type: ignore[arg-type]
    model = Replicas(modules, Heads.even(3, 3, masked=True), device=torch.device("cuda"), dtype=torch.float64)
    own: Signal = Predicted(h)
    if policy.start:
        own = Noise(3, [torch_generator(r, "directions") for r in range(2)], length=Length(0.5))
    memory = TaskMemory(3, 8)
    learner = Gem(memory) if name == "gem" else dcl(memory, interval=3)
    step = Step(model, learner, 0.1, [Attached(own)], policy)
    advance = Captured(step) if graphs else step
    generator, losses = torch.Generator().manual_seed(0), []
    for number in range(30):
        x = torch.randn(2, 3 if number % 10 == 9 else 4, 6, generator=generator, dtype=torch.float64)
        y = torch.randint(3, x.shape[:2], generator=generator)
        used = torch.tensor([True, number % 2 == 0]).cuda()
        unlabelled = (Unlabelled(x[:, :3].flip(1).cuda(), used),) if number % 3 else ()
        losses.append(advance(Batch(x.cuda(), y.cuda(), number // 10), unlabelled)["loss"])
    return torch.cat([model.theta.flatten(), *(b.double().flatten() for b in model.buffers.values())]), losses


@needs_gpu
@pytest.mark.parametrize("name", ["gem", "dcl"])
@pytest.mark.parametrize("options", [{}, {"optimizer": "adam", "lr": 0.01}])
@pytest.mark.parametrize("policy", [Policy(), Policy(update="sequential", batchnorm="separate"), Policy(start=1)])
def test_graphs_train_as_steps_do(name: str, options: dict[str, object], policy: Policy) -> None:
    plain, plain_losses = trained(name, options, policy, graphs=False)
    captured, captured_losses = trained(name, options, policy, graphs=True)
    torch.testing.assert_close(captured, plain, rtol=1e-9, atol=1e-12)
    assert torch.allclose(torch.stack(captured_losses), torch.stack(plain_losses), rtol=1e-9)


@needs_gpu
def test_dropout_in_graphs_draws_what_it_draws_in_steps() -> None:
    def trained_with(*, graphs: bool) -> Tensor:
        with seeded(0, "model"):
            modules = [nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 9)) for _ in range(2)]
        heads, cuda = Heads.even(3, 3, masked=True), torch.device("cuda")
        model = Replicas(modules, heads, device=cuda, dtype=torch.float64, seeds=[3, 7])
        step = Step(model, Gem(TaskMemory(3, 8)), 0.1)
        advance, generator = Captured(step) if graphs else step, torch.Generator().manual_seed(0)
        for number in range(18):
            x = torch.randn(2, 4, 6, generator=generator, dtype=torch.float64)
            y = torch.randint(3, x.shape[:2], generator=generator)
            advance(Batch(x.cuda(), y.cuda(), number // 6), ())
        return model.theta

    found = trained_with(graphs=True)
    torch.testing.assert_close(found, trained_with(graphs=False), rtol=1e-9, atol=1e-12)
    assert not torch.allclose(found[0], found[1])


def trained_on_uneven_tasks(kind: HeadsKind, device: str, *, graphs: bool) -> Tensor:
    """Three tasks of two, one and two classes, one of which returns, with memories and h."""
    heads = Heads.of([(4, 7), (9,), (7, 2)], kind)
    with seeded(0, "model"):
        modules = [MLP([6, 5, heads.outputs]) for _ in range(2)]
        h = GradientLearner(heads.width, (5,), alpha=0.5, absent=heads.absent, replicas=(2,)).to(device, torch.float64)
    model = Replicas(modules, heads, device=torch.device(device), dtype=torch.float64)
    step = Step(model, Agem(ClassMemory(heads, 4, seeds=[0, 1]), 4), 0.1, [Attached(Predicted(h))], Policy())
    advance, generator = Captured(step) if graphs else step, torch.Generator().manual_seed(0)
    for number in range(24):
        task = number // 8
        x = torch.randn(2, 4, 6, generator=generator, dtype=torch.float64)
        y = torch.randint(len(heads.task_columns[task]), x.shape[:2], generator=generator)
        unlabelled = Unlabelled(x.flip(1).to(device), torch.ones(2, dtype=torch.bool, device=device))
        advance(Batch(x.to(device), heads.labels(y, task).to(device), task), (unlabelled,))
    return model.theta.cpu()


@needs_gpu
@pytest.mark.parametrize("kind", ["masked", "seen", "all"])
def test_classes_that_are_absent_or_compete_train_in_graphs_as_in_steps(kind: HeadsKind) -> None:
    found = trained_on_uneven_tasks(kind, "cuda", graphs=True)
    torch.testing.assert_close(found, trained_on_uneven_tasks(kind, "cuda", graphs=False), rtol=1e-9, atol=1e-12)


def test_what_a_loss_is_over_changes_what_is_learned() -> None:
    masked, seen, every = (trained_on_uneven_tasks(kind, "cpu", graphs=False) for kind in ("masked", "seen", "all"))
    assert torch.isfinite(torch.stack([masked, seen, every])).all()
    assert not torch.allclose(masked, seen)
    assert not torch.allclose(seen, every)


@needs_gpu
@pytest.mark.parametrize("guard", [False, True])
@pytest.mark.parametrize("learner", ["gem", "a-gem", "er", "der", "der-plus-plus", "er-ace", "ewc"])
@pytest.mark.parametrize("name", [*sorted(SIGNALS.keys() - {"none", "python"}), *OPTIONS])
def test_every_signal_trains_in_graphs_as_in_steps(name: str, learner: str, guard: bool) -> None:
    """Images and steps are such that rounding stays rounding: BatchNorm over a few numbers would make 1e-15 1e-2."""
    changes = [*signal_and_pool(name), f"learner.name={learner}", "learner.memory=8"]
    setting = load("digits", changes).rows[1].setting

    def networks(purpose: str) -> Replicas:
        modules: list[nn.Module] = []
        for seed in range(2):
            with seeded(seed, purpose):
                modules.append(SlimResNet18(2, 6))
        return Replicas(modules, Heads.even(3, 2, masked=True), device=torch.device("cuda"), dtype=torch.float64)

    def trained_with(*, graphs: bool) -> tuple[Tensor, Metrics]:
        model = networks("model")
        context = Context(
            seeds=[0, 1],
            tasks=2,
            classes=3,
            batch=4,
            lr=0.1,
            data=task_data((0, 1)),
            scale=Scale(),
            shape=(3, 16, 16),
            model=model,
            network=lambda: SlimResNet18(2, 6),
            another=networks,
            epoch=lambda task: 8,
            schedule=setting.schedule,
        )
        learning = LEARNERS[setting.learner.name].build(setting.learner, context)
        (table,) = setting.signals
        own = SIGNALS[table.name].build(table, replace(context, learner=learning))
        step = Step(model, learning, 0.001, [Attached(own)], Policy(guard=guard))
        advance, generator = Captured(step) if graphs else step, torch.Generator().manual_seed(0)
        for number in range(16):
            x = torch.rand(2, 12, 3, 16, 16, generator=generator, dtype=torch.float64).cuda()
            y = torch.randint(3, (2, 4), generator=generator).cuda()
            used = torch.tensor([True, number % 2 == 0]).cuda()
            views = build.views(table).count
            truth = torch.randint(3, (2, 8 // views), generator=generator).cuda()
            shown = Unlabelled(x[:, 4:], used, views, truth=truth)
            unlabelled = (shown,) if number % 3 else ()
            metrics = advance(Batch(x[:, :4], y, number // 8), unlabelled)
        return model.theta, metrics

    found, metrics = trained_with(graphs=True)
    expected, plain = trained_with(graphs=False)
    torch.testing.assert_close(found, expected, rtol=1e-7, atol=1e-10)
    assert metrics.keys() == plain.keys()


class Tracing(TorchDispatchMode):
    """Writes down operations, their numbers, and where the tensors lie that were there before."""

    def __init__(self) -> None:
        super().__init__()
        self.made: set[int] = set()
        self.log: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        leaves = tree_leaves((args, kwargs or {}))
        self.log.append(f"{func} {[self._told(leaf) for leaf in leaves]}")
        before = {leaf.untyped_storage().data_ptr() for leaf in leaves if isinstance(leaf, Tensor)} - self.made
        found = func(*args, **(kwargs or {}))
        places = {leaf.untyped_storage().data_ptr() for leaf in tree_leaves(found) if isinstance(leaf, Tensor)}
        self.made |= places - before
        return found

    def _told(self, leaf: object) -> str:
        if not isinstance(leaf, Tensor):
            return "generator" if isinstance(leaf, torch.Generator) else repr(leaf)
        made = leaf.untyped_storage().data_ptr() in self.made
        return f"{tuple(leaf.shape)} {'made' if made else leaf.data_ptr()}"


class Traced:
    """Stands where graphs would: inputs keep their place, and every step of a kind has to be the same operations."""

    def __init__(self, step: Any) -> None:
        self.step, self.compared = step, 0
        self.known: dict[object, tuple[Batch, Feeds, list[str]]] = {}

    def __call__(self, batch: Batch, unlabelled: Feeds = ()) -> Metrics:
        self.step.prepare(batch, unlabelled)
        key = (batch.task, batch.x.shape, tuple(each.x.shape for each in unlabelled), self.step.kind(batch))
        if key not in self.known:
            extra = tuple(Unlabelled(each.x.clone(), each.used.clone(), each.views) for each in unlabelled)
            self.known[key] = (Batch(batch.x.clone(), batch.y.clone(), batch.task), extra, [])
            return self.step.advance(batch, unlabelled)  # type: ignore[no-any-return]
        own, extra, log = self.known[key]
        own.x.copy_(batch.x), own.y.copy_(batch.y)
        for place, new in zip(extra, unlabelled, strict=True):
            place.x.copy_(new.x), place.used.copy_(new.used)
        with Tracing() as tracing:
            metrics = self.step.advance(own, extra)
        if log:
            assert tracing.log == log
            self.compared += 1
        log[:] = tracing.log
        return metrics  # type: ignore[no-any-return]


OF_MANY_EPOCHS = [
    "acl",
    "er",
    "er-ace",
    AUGMENTED,
    "a-gem",
    "der",
    "der-plus-plus",
    "x-der",
    X_DER,
    "ewc",
    ONLINE,
    "mas",
    "lwf",
    "icarl",
    "hal",
    "hal;learner.form=mammoth",
    "bic",
    "lucir",
    "icarl-original",
    "cfa;learner.memory=20;learner.epochs=1",
]
OF_MANY_EPOCHS += ["joint", "pnn", "hat", "independent"]


@pytest.mark.parametrize("learner", OF_MANY_EPOCHS)
def test_a_step_of_many_epochs_is_always_the_same_operations_in_the_same_places(
    learner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a graph would replay, seen without one; rates drop and everybody starts anew in the fifth epoch."""
    made: list[Traced] = []
    for module in ("gradcast.training.trainer", "gradcast.learners.acl.acl_step"):
        monkeypatch.setattr(f"{module}.fastest", lambda step: (made.append(Traced(step)), made[-1])[1])
    changes = ["schedule.epochs=6", "schedule.patience=1", "schedule.above_chance=1.0", "stream.batch=80"]
    loop = PreparedRun(Place(torch.device("cpu"), torch.float64), SHELF).loop(
        scheduled(*learner.split(";"), *changes, "policy.batch=80", "signal.alpha=0.01"), [0]
    )
    loop.run([])
    assert len(made) == (2 if learner == "acl" else 1)
    assert all(each.compared > 10 for each in made)


@pytest.mark.parametrize(
    "signal",
    [
        *MATCHING,
        "dual-student",
        "co-training",
        "ada-net;signal.head=[8]",
        "vat;signal.entropy=1.0",
        TNAR,
        "predicted;signal.tau=previous",
    ],
)
def test_signals_with_a_state_or_several_passes_are_always_the_same_operations_in_the_same_places(
    signal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Traced] = []
    monkeypatch.setattr("gradcast.training.trainer.fastest", lambda step: (made.append(Traced(step)), made[-1])[1])
    changes = ["policy.p=1.0", "policy.batch=6", "schedule.epochs=6", "stream.batch=80"]
    setting = scheduled("er", *changes, *f"signal.name={signal}".split(";"))
    PreparedRun(Place(torch.device("cpu"), torch.float64), SHELF).loop(setting, [0, 1]).run([])
    assert made[0].compared > 10


@cache
def on_gpu() -> PreparedRun:
    return PreparedRun(Place(torch.device("cuda"), torch.float64), SHELF)


@needs_gpu
@pytest.mark.parametrize("learner", ["finetune", "gem", *OF_MANY_EPOCHS])
def test_many_epochs_train_in_graphs_as_in_steps(learner: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Six epochs: every kind of step is captured, the rate drops, and everybody starts anew in the fifth."""
    changes = ["schedule.epochs=6", "schedule.patience=1", "schedule.above_chance=1.0", "stream.batch=80"]
    own = scheduled(*learner.split(";"), *changes, "policy.batch=80", "signal.alpha=0.01")

    def trained() -> Tensor:
        loop = on_gpu().loop(own, [0, 1])
        loop.run([])
        return torch.cat([weights_of(loop, task) for task in range(2)])

    found = trained()
    for module in ("gradcast.training.trainer", "gradcast.learners.acl.acl_step"):
        monkeypatch.setattr(f"{module}.fastest", lambda step: step)
    torch.testing.assert_close(found, trained(), rtol=1e-6, atol=1e-9)
