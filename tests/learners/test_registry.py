import pytest

from gradcast.learners.agem import Agem
from gradcast.learners.bic import Bic
from gradcast.learners.cfa import Cfa
from gradcast.learners.der import Der
from gradcast.learners.er import Er
from gradcast.learners.ewc import Ewc
from gradcast.learners.finetune import Finetune
from gradcast.learners.gem import Gem
from gradcast.learners.hal import Hal
from gradcast.learners.hat import Hat
from gradcast.learners.icarl import Icarl
from gradcast.learners.icarl_original import OriginalIcarl
from gradcast.learners.independent import Independent
from gradcast.learners.joint import Joint
from gradcast.learners.lucir import Lucir
from gradcast.learners.lwf import Lwf
from gradcast.learners.mas import Mas
from gradcast.learners.multimodal import Multimodal
from gradcast.learners.registry import LEARNERS
from gradcast.learners.xder import XDer
from gradcast.specs.text import load
from gradcast.training.trainer import StepTrainer
from tests.training.scene import scheduled, shared


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("finetune", Finetune),
        ("gem", Gem),
        ("dcl", Gem),
        ("a-gem", Agem),
        ("er", Er),
        ("er-ace", Er),
        ("der", Der),
        ("der-plus-plus", Der),
        ("x-der", XDer),
        ("hal", Hal),
        ("ewc", Ewc),
        ("mas", Mas),
        ("lwf", Lwf),
        ("icarl", Icarl),
        ("icarl-original", OriginalIcarl),
        ("bic", Bic),
        ("lucir", Lucir),
        ("cfa", Cfa),
        ("joint", Joint),
        ("independent", Independent),
        ("multimodal", Multimodal),
        ("hat", Hat),
    ],
)
def test_learners_by_name(name: str, kind: type) -> None:
    digits = ["stream.tasks=3", f"learner.name={name}"]
    digits += ["model.heads=masked"] if "new-classes" in LEARNERS[name].traits else []
    setting = scheduled(name) if name == "hat" else load("digits", digits).rows[0].setting
    trainer = shared().loop(setting, [0, 1]).trainer
    assert isinstance(trainer, StepTrainer)
    found = trainer.update.learner
    assert isinstance(found, kind)
    if isinstance(found, Gem):
        assert (found.direction is not None) == (name == "dcl")
        assert (found.memory.size, found.margin) == (128, 0.5)
    if isinstance(found, Agem):
        assert (found.memory.size, found.memory.heads.tasks, found.count) == (128, 3, 256)
    if isinstance(found, Er | Der):
        assert (found.memory.size, found.count) == (3 * 128, 10)
    if isinstance(found, XDer):
        assert (found.memory.size, found.count, found.batch, found.images) == (3 * 128, 10, 10, 64)
        assert (found.alpha, found.beta, found.gamma, found.margin, found.eta) == (0.6, 0.9, 0.85, 0.2, 0.01)
        assert (found.contrast, found.temperature, found.views, found.augment) == (0.05, 5.0, 2, None)
        assert found.strong is not None
    if isinstance(found, Hal):
        assert (found.memory.size, found.count, found.anchors.size) == (128, 10, 30)
    if isinstance(found, Bic):
        assert (found.memory.size, found.validation.size, found.epochs, found.lr) == (118, 10, 250, 1e-3)
    if isinstance(found, Lucir):
        assert (found.memory.size, found.count, found.distil, found.epochs) == (128, 10, 5.0, 1)
        assert trainer.update.sgd is not None
        assert trainer.update.sgd.decay == 5e-4
    if isinstance(found, Cfa):
        assert (found.memory.size, found.count, found.epochs, found.lr) == (128, 10, 5, 1e-4)
        assert (found.alpha, found.beta) == (0.5, 1.0)
    if isinstance(found, Ewc):
        assert (found.images, found.weight) == (128, 3.0)
    if isinstance(found, Icarl):
        assert (found.memory.shares, found.weight, found.over_batch) == ([12, 6, 4], 1.0, False)


def test_every_learner_is_described() -> None:
    for name, entry in LEARNERS.items():
        table = entry.table.model_validate({"name": name} | ({"path": "mine:Mine"} if name == "python" else {}))
        assert entry.describe(table)
        assert entry.about
        assert entry.cost
