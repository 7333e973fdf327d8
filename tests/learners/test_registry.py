import pytest

from gradcast.learners.agem import Agem
from gradcast.learners.er import Er
from gradcast.learners.finetune import Finetune
from gradcast.learners.gem import Gem
from gradcast.learners.registry import LEARNERS, WORDS, learner
from gradcast.specs.text import load


@pytest.mark.parametrize(
    ("name", "kind"), [("finetune", Finetune), ("gem", Gem), ("dcl", Gem), ("a-gem", Agem), ("er", Er)]
)
def test_learners_by_name(name: str, kind: type) -> None:
    setting = load("digits", [f"learner.name={name}"]).rows[0].setting
    found = learner(setting.learner, 3, classes=10, seeds=[0, 1])
    assert isinstance(found, kind)
    if isinstance(found, Gem):
        assert (found.direction is not None) == (name == "dcl")
        assert (found.memory.size, found.margin) == (128, 0.5)
    if isinstance(found, Agem):
        assert (found.memory.size, found.memory.tasks, found.count) == (128, 3, 256)
    if isinstance(found, Er):
        assert (found.memory.size, found.count) == (3 * 128, 10)


def test_every_learner_has_a_word() -> None:
    assert set(WORDS) == set(LEARNERS)
