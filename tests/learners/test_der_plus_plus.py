import pytest
from pydantic import ValidationError

from gradcast.learners.der import Der
from gradcast.learners.der_plus_plus import ENTRY, DerPlusPlusSpec
from gradcast.memories.reservoir import Reservoir
from gradcast.replicas.heads import Heads, HeadsKind
from gradcast.training.step import Step
from tests.helpers import batch, replicas
from tests.learners.test_der import follows_plain_steps


@pytest.mark.parametrize("kind", ["masked", "seen", "all"])
def test_twenty_steps_of_uneven_tasks_equal_a_plain_spelling(kind: HeadsKind) -> None:
    follows_plain_steps(Heads.of([(0, 1), (2, 1, 3)], kind), beta=0.6)


def test_both_batches_are_drawn_apart_and_keep_their_places() -> None:
    model, learner = replicas(2), Der(Reservoir(40, [0, 1]), 3, beta=0.5)
    step = Step(model, learner, 0.1)
    for number in range(4):
        step(batch(model, seed=number))
    first = learner.drawn, learner.labelled
    metrics = step(batch(model, seed=4))
    assert learner.drawn is not None
    assert learner.labelled is not None
    assert not learner.drawn.x.equal(learner.labelled.x)
    assert first[0] is not None
    assert first[1] is not None
    assert learner.drawn.x.data_ptr() == first[0].x.data_ptr() != learner.labelled.x.data_ptr()
    assert learner.labelled.x.data_ptr() == first[1].x.data_ptr()
    assert {"distance", "replay_loss"} <= metrics.keys()


def test_without_labels_it_would_be_der() -> None:
    assert ENTRY.describe(DerPlusPlusSpec(name="der-plus-plus")) == "DER++"
    with pytest.raises(ValidationError, match="beta"):
        DerPlusPlusSpec(name="der-plus-plus", beta=0.0)
