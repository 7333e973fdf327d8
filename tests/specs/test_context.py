from dataclasses import replace

import pytest
import torch

from gradcast.core import Learner
from gradcast.gradients.sgd import Sgd
from gradcast.learners import hat
from gradcast.learners.learner_entry import LearnerEntry
from gradcast.learners.registry import LEARNERS
from gradcast.signals.registry import SIGNALS
from gradcast.specs.context import Context, Plan
from gradcast.specs.spec import Setting
from gradcast.specs.text import load
from gradcast.training.schedule_tables import StepsSpec
from tests.training.scene import scheduled, shared

GIVEN: list[object] = []


def given(setting: Setting, monkeypatched: pytest.MonkeyPatch, name: str) -> list[object]:
    GIVEN.clear()
    entry = LEARNERS[name]
    assert isinstance(entry, LearnerEntry)

    def build(table: object, context: object) -> object:
        GIVEN.append(context)
        return entry.build(table, context)

    def trainer(table: object, plan: object) -> object:
        GIVEN.append(plan)
        assert entry.trainer is not None
        return entry.trainer(table, plan)

    own = replace(entry, build=build, trainer=None if entry.trainer is None else trainer)
    monkeypatched.setitem(LEARNERS.entries, name, own)
    shared().loop(setting, [3, 4])
    return list(GIVEN)


def test_a_learner_is_told_all_that_it_is_made_for(monkeypatch: pytest.MonkeyPatch) -> None:
    setting = scheduled("hat", "stream.batch=40", "policy.batch=40")
    (context,) = given(setting, monkeypatch, "hat")
    assert isinstance(context, Context)
    assert (list(context.seeds), context.tasks, context.classes, context.batch) == ([3, 4], 2, 5, 40)
    assert context.lr == setting.learner.lr
    assert context.schedule == setting.schedule
    assert context.epoch(0) == context.data.length(0, 40)
    assert context.scale == context.data.stream.scale
    assert context.learner is None
    assert context.updates(0) == setting.schedule.epochs * context.epoch(0)
    modules = context.modules(shared=hat.LAYERS, purpose="hat")
    assert modules.model is context.model
    again = context.another("model")
    assert torch.equal(again.theta, context.model.theta)
    assert not torch.equal(context.another("teacher").theta, context.model.theta)


def test_under_steps_the_whole_course_is_one_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    course = StepsSpec(name="steps", steps=7, warm_up=1, milestones=[], test_every=7)
    setting = scheduled("finetune").model_copy(update={"schedule": course})
    (context,) = given(setting, monkeypatch, "finetune")
    assert isinstance(context, Context)
    assert context.epoch(0) == context.epoch(1) == context.updates(0) == 7


def test_every_update_of_every_pass_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    setting = load("digits", ["stream.epochs=2", "learner.name=er", "learner.repeats=3"]).rows[1].setting
    (context,) = given(setting, monkeypatch, "er")
    assert isinstance(context, Context)
    assert context.updates(0) == 6 * context.epoch(0)


def test_a_second_network_has_the_optimizer_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    own = ["learner.name=er", "learner.momentum=0.9", "learner.decay=0.1", "model.rates={head=0.5}"]
    for changes in ([], own):
        (context,) = given(load("digits", changes).rows[1].setting, monkeypatch, "er" if changes else "gem")
        assert isinstance(context, Context)
        peer = context.peer("peer")
        assert (peer.sgd is None) == (not changes)
        assert peer.network.rates is context.model.rates
        assert not torch.equal(peer.network.theta, context.model.theta)
    assert peer.sgd is not None
    head = context.head("head", [2], as_model=True)
    assert isinstance(head.optimizer, Sgd)
    assert (head.optimizer.momentum, head.optimizer.decay) == (peer.sgd.momentum, peer.sgd.decay) == (0.9, 0.1)


def test_a_learner_that_trains_in_its_own_way_is_given_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    setting = scheduled("acl")
    (plan,) = given(setting, monkeypatch, "acl")
    assert isinstance(plan, Plan)
    assert (list(plan.seeds), plan.skips, plan.policy) == ([3, 4], False, setting.policy)
    assert plan.heads.width == 5


def given_to_a_signal(setting: Setting, monkeypatched: pytest.MonkeyPatch) -> Context:
    entry, seen = SIGNALS["predicted"], list[Context]()

    def build(table: object, context: Context) -> object:
        seen.append(context)
        return entry.build(table, context)

    monkeypatched.setitem(SIGNALS.entries, "predicted", replace(entry, build=build))
    shared().loop(setting, [3, 4])
    return seen[0]


def test_signals_are_told_of_the_learner(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(given_to_a_signal(scheduled("er"), monkeypatch).learner, Learner)


def test_every_update_of_acl_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    context = given_to_a_signal(scheduled("acl"), monkeypatch)
    assert context.updates(0) == 2 * context.epoch(0)
