"""The table of adversarial continual learning, and how its parts are made."""

from typing import ClassVar, Literal

from torch import nn

from gradcast.data.images import ImageShape
from gradcast.learners.acl.acl import Acl, replicas
from gradcast.learners.acl.settings import AclSettings
from gradcast.learners.learner_entry import LearnerEntry
from gradcast.memories.by_class import ClassMemory
from gradcast.networks.acl_network import AclNetwork, acl_network, residual_acl_network
from gradcast.networks.registry import AlexNetSpec, ModelTable, SlimResNetSpec
from gradcast.replicas.heads import Heads
from gradcast.replicas.replicas import Replicas
from gradcast.signals.pseudo import Attached
from gradcast.specs.context import Plan
from gradcast.specs.table import Natural, Positive, Rate
from gradcast.training.schedule_tables import PlateauSpec


class AclSpec(AclSettings):
    """Adversarial continual learning; ``model`` is its shared module."""

    name: Literal["acl"]
    lr: Rate = 0.01  # miniImageNet 0.003
    private_width: Positive = 32  # channels of the private modules; miniImageNet 16
    head_units: Positive = 32  # miniImageNet 128
    memory: Natural = 0  # samples kept a task, equally many of each class; 0: none, as published
    omitted_defaults: ClassVar[tuple[str, ...]] = ("memory", "difference")


def _network(table: AclSpec, model: ModelTable, shape: ImageShape, width: int, tasks: int) -> nn.Module:
    options = {"private_width": table.private_width, "head_units": table.head_units}
    if isinstance(model, SlimResNetSpec):
        return residual_acl_network(shape, width, width=model.width, **options)
    assert isinstance(model, AlexNetSpec)  # compatibility sees to that
    return acl_network(shape, width, latent=model.latent, widths=model.widths, channels=model.channels, **options)


def _heads(table: AclSpec, model: ModelTable, width: int, tasks: int) -> Heads:
    assert isinstance(model, AlexNetSpec | SlimResNetSpec)
    return Heads.even(width, tasks, extra=2 * model.latent)


def _trainer(table: AclSpec, plan: Plan) -> Acl:
    def network() -> AclNetwork:
        made = plan.network()
        assert isinstance(made, AclNetwork)
        return made

    def signals(model: Replicas) -> list[Attached]:
        return list(plan.attach(model, lambda purpose: replicas(network, plan.seeds, plan.place, purpose)))

    judging, memory = None, None
    if isinstance(plan.schedule, PlateauSpec):
        judging = plan.schedule.rates(len(plan.seeds), table.discriminator_lr)
    if table.memory > 0:
        memory = ClassMemory(plan.heads, table.memory, seeds=plan.seeds)
    made = Acl(network, plan.seeds, table, signals, plan.policy, place=plan.place, judging=judging, memory=memory)
    made.training.update.skips = plan.skips
    return made


ENTRY = LearnerEntry(
    ("acl",),
    AclSpec,
    lambda table, context: None,
    "ACL",
    "several updates a batch, two passes each; a private module and a head a task",
    frozenset({"own-network", "task-modules", "one-head"}),
    network=_network,
    heads=_heads,
    models=("alexnet-like", "slim-resnet18"),
    trainer=_trainer,
    recalled=lambda table, past, batch: (batch + 2 * table.memory, 0),  # features come from a second pass
)
