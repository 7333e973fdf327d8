import numpy as np
import torch
from gradcast.semi.meta_labels import MetaLabels
from gradcast.semi.mix_up import MixUp

from gradcast.randomness import numpy_generator
from tests.semi.scene import images, moment, small_model


def test_pairs_are_mixed_in_proportions_of_their_own_that_the_seed_draws() -> None:
    model, part = small_model(), MetaLabels()
    mix_up, at = MixUp(part, 0.1, [3, 8]), moment(model)
    mix_up.prepare(at.batch)
    part.watch(at)
    drawn = np.stack([numpy_generator(seed, "mix-up").beta(0.1, 0.1, 4) for seed in (3, 8)])
    assert mix_up.shares.values is not None
    assert np.array_equal(mix_up.shares.values.numpy(), drawn)
    x, label = mix_up.mixtures(at)
    assert part.label is not None
    for replica, image in [(0, 1), (1, 3)]:
        share = drawn[replica, image]
        mixed = share * at.batch.x[replica, image] + (1 - share) * at.unlabelled.x[replica, image]
        torch.testing.assert_close(x[replica, image], mixed)
        expected = (1 - share) * part.label[replica, image]
        expected[at.batch.y[replica, image]] += share
        torch.testing.assert_close(label[replica, image], expected)


def test_proportions_keep_their_place_in_memory() -> None:
    mix_up, (batch, _) = MixUp(MetaLabels(), 1.0, [3, 8]), images(small_model())
    mix_up.prepare(batch)
    first = mix_up.shares.values
    assert first is not None
    before = first.clone()
    mix_up.prepare(batch)
    assert mix_up.shares.values is first
    assert not torch.equal(first, before)
