import re
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from gradcast.data.cache import Cache
from gradcast.errors import GradcastError
from gradcast.runs.prepared import PreparedRun
from gradcast.specs import build_stream
from gradcast.specs.compatibility import RULES, contradiction
from gradcast.specs.fit import check
from gradcast.specs.spec import Setting
from gradcast.specs.text import load, validated
from tests.helpers import signal_and_pool
from tests.specs.test_build import PLACE, SHELF

PLATEAU = (
    "stream.scenario=split",
    "stream.tasks=2",
    "stream.class_order=seeded",
    "stream.samples=all",
    "schedule.epochs=3",
)
FEW = ("stream.samples=all", "stream.labels=100")
ALEXNET = (
    "stream.size=12",
    "model.name=alexnet-like",
    "model.latent=8",
    "model.widths=[8, 8, 8]",
    "model.channels=[2, 2, 2]",
)
SPLIT = ("stream.scenario=split", "stream.tasks=2", "stream.samples=all", "stream.class_order=seeded")
EQUAL = ("policy.batch=10",)
AHEAD = ("head_start.steps=1", "head_start.batch=4")
TWO_POOLS = 'pool=[{name = "patches", count = 30}, {name = "grey", count = 30}]'


@dataclass(frozen=True)
class Case:
    """Settings that a rule refuses with these words, and close ones that work."""

    rule: int
    settings: tuple[str, ...]
    says: str
    works: tuple[str, ...]


CASES = [
    Case(0, (*SPLIT, "learner.name=acl", *EQUAL),
         "makes its networks of model.name = 'alexnet-like' or 'slim-resnet18'",
         (*SPLIT, *ALEXNET, "learner.name=acl", *EQUAL)),
    Case(0, (*SPLIT, "model.name=slim-resnet18", "learner.name=acl", "model.heads=shared", *EQUAL),
         "leave model.heads, model.weights, model.perturbation, model.train and model.rates out",
         (*SPLIT, "stream.size=12", "model.name=slim-resnet18", "model.width=2", "learner.name=acl", *EQUAL)),
    Case(0, (*SPLIT, "model.name=slim-resnet18", "learner.name=hat"), "'hat' makes its networks of model.name = "
         "'alexnet-like': set that", (*SPLIT, *ALEXNET, "learner.name=hat")),
    Case(0, ("learner.name=pnn",), "'pnn' makes its networks of", (*ALEXNET, "learner.name=pnn")),
    Case(1, (*SPLIT, *ALEXNET, "learner.name=acl", "signal.name=distil", *EQUAL), "compares one network's heads of all "
         "tasks, and 'acl' has no such network", (*SPLIT, *ALEXNET, "learner.name=er", "signal.name=distil")),
    Case(2, (*ALEXNET, "learner.name=hat", "signal.name=mean-teacher"), "evaluates an average of the whole network",
         (*ALEXNET, "learner.name=gem", "signal.name=mean-teacher")),
    Case(2, ("signal.name=mean-teacher", "evaluation.average=3"), "evaluates an average already: leave "
         "evaluation.average out", ("signal.name=soft", "evaluation.average=3")),
    Case(3, (*ALEXNET, "learner.name=hat", "signal.name=soft"),
         "a second network like the model, and that of 'hat' has parts for each task",
         (*SPLIT, *ALEXNET, "learner.name=acl", "signal.name=soft", *EQUAL)),
    Case(3, (*ALEXNET, "learner.name=pnn", "signal.name=one-hot"), "that of 'pnn' has parts for each task",
         (*ALEXNET, "learner.name=pnn", "signal.name=predicted")),
    Case(4, (*ALEXNET, "learner.name=hat", "policy.project=false"), "what the gates of 'hat' protect",
         (*ALEXNET, "learner.name=hat", "policy.guard=true")),
    Case(5, (*SPLIT, *ALEXNET, "learner.name=acl"), "set policy.batch equal to stream.batch",
         (*SPLIT, *ALEXNET, "learner.name=acl", "learner.private_input=unlabelled")),
    Case(6, (*PLATEAU, "signal.optimizer=adam"), "set signal.optimizer=sgd",
         ("signal.optimizer=adam", "learner.momentum=0.9")),
    Case(7, ("signal.tau=per_sample",), "set policy.batch equal to stream.batch",
         ("signal.tau=per_sample", *EQUAL, "stream.samples=100")),
    Case(7, ("signal.tau=per_sample", *EQUAL, "stream.samples=105"), "stream.samples to a multiple of it",
         ("signal.tau=per_sample", *EQUAL, "stream.samples=200", "stream.ratio=0.5")),
    Case(7, ("signal.tau=per_sample", *EQUAL, "stream.samples=all"), "stream.samples to a multiple of it",
         ("signal.tau=per_sample", *EQUAL, *FEW)),
    Case(7, (*PLATEAU, "stream.samples=100", "signal.tau=per_sample", *EQUAL), "without schedule.name = 'plateau'",
         (*FEW, "signal.tau=per_sample", "policy.batch=64", "stream.batch=64", "schedule.name=steps",
          "schedule.steps=4", "schedule.milestones=[]", "schedule.test_every=2")),
    Case(8, ("signal.name=true-labels",), "set pool.name=held-out, or unlabelled with stream.labels",
         ("signal.name=true-labels", "pool.name=held-out")),
    Case(8, (*FEW, "signal.name=true-labels"), "needs images whose labels are known",
         (*FEW, "signal.name=true-labels", "pool.name=unlabelled")),
    Case(9, ("signal.name=soft", "signal.protected=true", "learner.name=er"), "signal.protected needs the memories of",
         ("signal.name=soft", "signal.protected=true", "learner.name=dcl")),
    Case(10, ("signal.name=soft", "signal.outputs=seen"), "set model.heads=masked, or leave it out",
         ("signal.name=soft", "signal.outputs=seen", "model.heads=masked")),
    Case(10, (*SPLIT, *ALEXNET, "learner.name=acl", "signal.name=soft", "signal.outputs=seen", *EQUAL),
         "set model.heads=masked, or leave it out", (*SPLIT, "signal.name=soft", "signal.outputs=seen")),
    Case(11, ("signal.name=contrastive", "policy.batch=1"), "'contrastive' compares images of a batch",
         ("signal.name=contrastive", "policy.batch=2")),
    Case(12, ("signal.name=distil", "policy.batchnorm=frozen"), "set policy.batchnorm to 'separate'",
         ("signal.name=distil", "policy.batchnorm=separate")),
    Case(13, ("signal.pool=grey",), "signal.pool = 'grey' is none of the row's pools (patches)",
         (TWO_POOLS, "signal.pool=grey")),
    Case(13, ('pool=[{name = "grey"}, {name = "grey", count = 30}]',), "the row has two pools called 'grey'",
         (TWO_POOLS,)),
    Case(13, ("pool.name=unlabelled",), "all have one: set stream.labels", (*FEW, "pool.name=unlabelled")),
    Case(14, (*PLATEAU, "stream.epochs=2"), "has schedule.epochs: set that, and leave stream.epochs out", PLATEAU),
    Case(14, ("schedule.name=steps", "stream.epochs=2"), "has schedule.steps: set that, and leave stream.epochs out",
         ("schedule.name=steps",)),
    Case(15, ("model.train=head", "model.perturbation=0.1"), "leave one of them out", ("model.perturbation=0.1",)),
    Case(15, ("model.train=head", *AHEAD), "set head_start.shared=true",
         ("model.train=head", *AHEAD, "head_start.shared=true")),
    Case(15, ("model.train=head", "signal.name=contrastive", "signal.labelled=true"), "after they have passed",
         ("signal.name=contrastive", "signal.labelled=true")),
    Case(15, ("model.train=head", "learner.name=x-der", "model.heads=masked"), "set learner.strong=[]",
         ("learner.name=x-der", "model.heads=masked")),
    Case(15, ("model.train=head", "learner.name=er", 'learner.augment=["flip"]'), "learner.augment augments labelled",
         ("learner.name=er", 'learner.augment=["flip"]')),
    Case(16, (*SPLIT, *ALEXNET, "learner.name=acl", *AHEAD, *EQUAL), "have parts for each task, which a head start",
         (*SPLIT, *ALEXNET, "learner.name=er", *AHEAD)),
    Case(16, (*AHEAD, "head_start.pool=grey"), "head_start.pool = 'grey' is none of the row's pools (patches)",
         (*AHEAD, TWO_POOLS, "head_start.pool=grey")),
    Case(16, (*AHEAD, TWO_POOLS, 'head_start.signal=[{name = "rotation", pool = "grey"}]'),
         "all signals of a head start have the same pool", (*AHEAD, TWO_POOLS, "head_start.signal=rotation")),
    Case(16, ("head_start.steps=1", "head_start.batch=1", "head_start.signal=vicreg"), "set head_start.batch to 2 or",
         ("head_start.steps=1", "head_start.batch=2", "head_start.signal=vicreg")),
    Case(17, ("learner.name=er-ace", "signal.name=meta-gradient", "signal.mix_up=1.0"), "set signal.mix_up=0.0",
         ("learner.name=er-ace", "signal.name=meta-gradient")),
    Case(17, ("learner.name=lwf", "signal.name=meta-gradient", "signal.mix_up=1.0"), "the learner 'lwf' needs",
         ("learner.name=lwf", "signal.name=meta-gradient")),
    Case(17, ("learner.name=bic", "model.heads=masked", "signal.name=meta-gradient", "signal.mix_up=1.0"),
         "the learner 'bic' needs", ("learner.name=bic", "model.heads=masked", "signal.name=meta-gradient")),
    Case(17, ("learner.name=icarl-original", "model.heads=masked", "signal.name=meta-gradient", "signal.mix_up=1.0"),
         "the learner 'icarl-original' needs",
         ("learner.name=icarl-original", "model.heads=masked", "signal.name=meta-gradient")),
    Case(17, ("learner.name=lucir", "model.heads=masked", "signal.name=meta-gradient", "signal.mix_up=1.0"),
         "the learner 'lucir' needs", ("learner.name=lucir", "model.heads=masked", "signal.name=meta-gradient")),
    Case(17, ("learner.name=cfa", "model.heads=masked", "signal.name=meta-gradient", "signal.mix_up=1.0"),
         "the learner 'cfa' needs", ("learner.name=cfa", "model.heads=masked", "signal.name=meta-gradient")),
    Case(17, ("learner.name=x-der", "model.heads=masked", "signal.name=meta-gradient", "signal.mix_up=1.0"),
         "the learner 'x-der' needs", ("learner.name=x-der", "model.heads=masked", "signal.name=meta-gradient")),
    Case(17, ("learner.name=hal", "signal.name=meta-gradient", "signal.mix_up=1.0"), "the learner 'hal' needs",
         ("learner.name=hal", "signal.name=meta-gradient")),
    Case(18, ("learner.name=er", 'learner.augment=["shift"]', 'stream.augment=["shift"]'),
         "would change an image twice: leave stream.augment out", ("learner.name=er", 'learner.augment=["shift"]')),
    Case(19, ("signal.name=icl", "policy.batch=5"), "set policy.batch to an even number",
         ("signal.name=icl", "policy.batch=2")),
    Case(15, ("model.train=head", "signal.name=co-training"), "changes pixels, and the layers that model.train leaves",
         ("signal.name=co-training",)),
    Case(21, (*SPLIT, *ALEXNET, "learner.name=acl", "signal.name=dual-student", *EQUAL),
         "trains a second network like the model, and that of 'acl' has parts for each task",
         (*SPLIT, *ALEXNET, "learner.name=er", "signal.name=dual-student")),
    Case(20, ("learner.name=cfa", "model.heads=masked", "evaluation.average=5"), "leave evaluation.average out",
         ("learner.name=cfa", "model.heads=masked")),
    *(Case(22, (*SPLIT, *ALEXNET, "learner.name=acl", *signal_and_pool(name), *EQUAL), "ones behind them: set learn",
           (*SPLIT, *ALEXNET, "learner.name=acl", *signal_and_pool(name), "learner.private_input=unlabelled"))
      for name in ("vat", "tnar")),
]  # fmt: skip


def second(settings: tuple[str, ...]) -> Setting:
    """The row of ``digits`` that has a signal."""
    return load("digits", list(settings)).rows[1].setting


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule}: {case.says}")
def test_every_rule_refuses_its_case_and_lets_its_neighbour_train(case: Case, tmp_path: Path) -> None:
    with pytest.raises(GradcastError, match=re.escape(case.says)) as caught:
        second(case.settings)
    assert "\n" not in str(caught.value)
    found = second(case.works)
    assert contradiction(found) is None
    prepared = PreparedRun(PLACE, replace(SHELF, cache=Cache(tmp_path)))  # for head starts
    check(found, prepared.stream(found))
    loop = prepared.loop(found, [0])
    assert loop.extent.steps > 0


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule}: {case.says}")
def test_it_is_that_rule_and_no_other(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("gradcast.specs.text.contradiction", lambda _: None)
        found = second(case.settings)
    broken = [number for number, rule in enumerate(RULES) if rule.problem(found) is not None]
    assert broken == [case.rule]
    prepared = PreparedRun(PLACE, SHELF)
    with pytest.raises(GradcastError, match=re.escape(case.says)):  # before training too, for settings made in Python
        check(found, prepared.stream(found))


def test_every_rule_has_a_case_and_says_why() -> None:
    assert {case.rule for case in CASES} == set(range(len(RULES)))
    assert all(rule.about for rule in RULES)
    assert contradiction(Setting()) is None


def test_one_of_several_signals_is_enough() -> None:
    pair = [{"name": "predicted"}, {"name": "true-labels"}]
    found = validated({"signal": pair})
    assert "'true-labels' needs images whose labels are known" in (contradiction(found) or "")
    own = validated(
        {"signal": [pair[0], pair[1] | {"pool": "held-out"}], "pool": [{"name": "patches"}, {"name": "held-out"}]}
    )
    assert contradiction(own) is None  # it takes the pool that has labels


MANY = ("learner.momentum=0.9", "learner.decay=0.001")
ALLOWED = {
    "momentum in a single pass": MANY,
    "acl in a single pass": (*SPLIT, *ALEXNET, "learner.name=acl", *EQUAL),
    "an order of classes for every seed in a single pass": SPLIT,
    "rotated tasks under plateau": ("stream.tasks=2", "schedule.epochs=3"),
    "fewer images under plateau": (*PLATEAU, "stream.samples=100", 'stream.augment=["crop"]', "stream.ratio=0.5"),
    "the reference's count under plateau": (*PLATEAU, "evaluation.drop_last=true"),
    "averaged weights under plateau": (*PLATEAU, "evaluation.average=3"),
    "two steps under plateau": (*PLATEAU, "policy.update=sequential"),
    "held-out images under plateau": (*PLATEAU, "stream.ratio=0.5", "pool.name=held-out"),
    "protected labels under plateau": (*PLATEAU, "signal.name=soft", "signal.protected=true"),
    "seen classes under plateau": (*PLATEAU, "signal.name=soft", "signal.outputs=seen"),
    "few labels in a single pass": (*FEW, "pool.name=unlabelled"),
    "few labels under plateau": ("stream.tasks=2", *FEW, "pool.name=unlabelled", "schedule.epochs=3"),
}


@pytest.mark.parametrize("name", ALLOWED)
def test_what_was_refused_once_and_works_now(name: str) -> None:
    found = second(ALLOWED[name])
    prepared = PreparedRun(PLACE, SHELF)
    check(found, prepared.stream(found))
    loop = prepared.loop(found, [0, 1])
    loop._begin(0)
    loop._train(next(iter(loop.schedule.turns(0, 0))), 0, [])
    assert bool(loop.trainer.model.theta.isfinite().all())


LEARNERS = ("finetune", "gem", "dcl", "a-gem", "er", "joint")


@pytest.mark.parametrize("learner", LEARNERS)
def test_every_learner_of_a_single_pass_takes_a_schedule(learner: str) -> None:
    found = second((*PLATEAU, f"learner.name={learner}", "learner.momentum=0.9"))
    assert found.plateau is not None
    assert found.plateau.epochs == 3


@pytest.mark.parametrize("learner", LEARNERS)
def test_every_learner_takes_few_labels(learner: str) -> None:
    found = load("digits-100", [f"learner.name={learner}"]).rows[1].setting
    check(found, build_stream.stream(found.stream, SHELF))
    assert found.one_task is not None


def test_the_documentation_lists_every_rule_with_its_reason() -> None:
    page = (Path(__file__).parents[2] / "docs" / "methods.md").read_text()
    assert [rule.about for rule in RULES if f"\n- {rule.about}.\n" not in page] == []


def test_true_labels_of_an_unknown_pool_are_refused_in_a_sentence() -> None:
    with pytest.raises(GradcastError, match=r"signal\.pool = 'x' is none of the row's pools"):
        load("digits", ["signal.name=true-labels", "signal.pool=x"])
