"""From a specification with a schedule to the loop it means."""

from collections.abc import Sequence

from torch import nn

from gradcast.core import Learner, Signal
from gradcast.devices import Place
from gradcast.epochs.core import EpochLearner
from gradcast.epochs.curriculum import Curriculum
from gradcast.epochs.joint import Joint
from gradcast.epochs.lessons import Lessons
from gradcast.epochs.loop import EpochLoop
from gradcast.epochs.modules import TaskModules
from gradcast.epochs.schedule import Schedule
from gradcast.epochs.steps import StepEpochs
from gradcast.epochs.supply import Supply
from gradcast.gradients.sgd import Sgd
from gradcast.learners.acl.acl import Acl, replicas
from gradcast.learners.hat import Hat
from gradcast.learners.pnn import Pnn
from gradcast.learners.registry import AclSpec, HatSpec, JointSpec, PnnSpec
from gradcast.learners.registry import learner as named_learner
from gradcast.memories.by_class import ClassMemory
from gradcast.networks.acl_network import AclNetwork
from gradcast.replicas.replicas import Replicas
from gradcast.signals.registry import signal, views
from gradcast.specs import build
from gradcast.specs.spec import Setting
from gradcast.streams.pool import Pool
from gradcast.training.step import Step


def loop(setting: Setting, curriculum: Curriculum, pool: Pool | None, seeds: Sequence[int], place: Place) -> EpochLoop:
    """Everything one row needs, for all seeds at once."""
    schedule = setting.schedule
    assert schedule is not None
    lessons = curriculum.lessons(seeds, place)
    if isinstance(setting.learner, AclSpec):
        own: EpochLearner = _acl(setting, setting.learner, schedule, curriculum, seeds, place)
    else:
        own = _stepwise(setting, curriculum, lessons, seeds, place)
    supply = None if pool is None else Supply(pool, setting.policy, seeds, views(setting.signal))
    return EpochLoop(lessons, own, schedule, supply, batch=setting.stream.batch, lr=setting.learner.lr)


def _acl(
    setting: Setting, spec: AclSpec, schedule: Schedule, curriculum: Curriculum, seeds: Sequence[int], place: Place
) -> Acl:
    def network() -> AclNetwork:
        made = build.module(setting, curriculum)
        assert isinstance(made, AclNetwork)
        return made

    def own_signal(model: Replicas) -> Signal | None:
        def teacher() -> Replicas:
            return replicas(network, seeds, place, "teacher")

        return signal(setting.signal, model, seeds, spec.lr, teacher, curriculum.scale)

    judging = schedule.plateau(len(seeds), spec.discriminator_lr)
    memory = None
    if spec.memory > 0:
        memory = ClassMemory(len(curriculum.tasks), spec.memory, classes=curriculum.width, seeds=seeds)
    return Acl(network, seeds, spec, own_signal, setting.policy, place=place, judging=judging, memory=memory)


def _stepwise(
    setting: Setting, curriculum: Curriculum, lessons: Lessons, seeds: Sequence[int], place: Place
) -> StepEpochs:
    spec, columns = setting.learner, build.heads(setting, curriculum)

    def network() -> nn.Module:
        return build.module(setting, curriculum)

    def another(purpose: str) -> Replicas:
        return build.replicas(network, columns, seeds, place, purpose)

    model, modules = another("model"), None
    own: Learner
    match spec:
        case JointSpec():
            own = Joint(lessons, setting.stream.batch)
        case PnnSpec():
            own = Pnn()
        case HatSpec():
            modules = alone = TaskModules(model, network, seeds, shared="layers.", purpose="hat")
            batches = lessons.length(setting.stream.batch)
            own = Hat(batches, lambda: alone.own, steepest=spec.steepest, sparsity=spec.sparsity, clip=spec.clip)
        case _:
            own = named_learner(spec, len(curriculum.tasks), classes=curriculum.width, seeds=seeds)
    found = signal(setting.signal, model, seeds, spec.lr, lambda: another("teacher"), curriculum.scale)
    sgd = Sgd(momentum=getattr(spec, "momentum", 0.0), decay=getattr(spec, "decay", 0.0))
    return StepEpochs(Step(model, own, spec.lr, found, setting.policy, sgd), modules)
