from dataclasses import replace

import pytest
import torch
from pydantic import ValidationError

from gradcast.learners.der import Der
from gradcast.learners.der_plus_plus import ENTRY, DerPlusPlusSpec
from gradcast.memories.reservoir import Reservoir
from gradcast.replicas.heads import Heads, HeadsKind
from gradcast.streams.augment import AUGMENTATIONS
from gradcast.streams.reaugment import Reaugment
from gradcast.streams.scale import Scale
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


@pytest.mark.parametrize("symmetric", [True, False])
def test_replayed_images_are_augmented_and_stored_as_they_came(symmetric: bool) -> None:
    """Mirrored images look the same where they are symmetric, and nowhere else."""
    show = Reaugment((AUGMENTATIONS["flip"],), Scale())
    weights = []
    for augment in (None, show):
        model = replicas(1, sizes=(48, 5, 3))
        learner = Der(Reservoir(8, [0]), 3, beta=0.5, augment=augment)
        step = Step(model, learner, 0.1)
        for number in range(6):
            data = batch(model, seed=number)
            x = data.x.unflatten(2, (3, 4, 4))
            x = x + x.flip(-1) if symmetric else x
            step(replace(data, x=x))
            if number == 0:
                assert learner.memory.filled["x"].equal(x)
        weights.append(model.theta.clone())
    assert torch.allclose(*weights, rtol=1e-12) == symmetric


def test_without_labels_it_would_be_der() -> None:
    assert ENTRY.describe(DerPlusPlusSpec(name="der-plus-plus")) == "DER++"
    with pytest.raises(ValidationError, match="beta"):
        DerPlusPlusSpec(name="der-plus-plus", beta=0.0)
