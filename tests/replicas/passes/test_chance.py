import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, dropout2d

from gradcast.randomness import derive, torch_generator
from gradcast.replicas.passes.chance import Chance, Noise, Undropped
from tests.helpers import CPU


def noise(*seeds: int) -> Noise:
    return Noise([torch_generator(seed, "dropout") for seed in seeds])


def test_kept_numbers_grow_so_that_the_mean_stays() -> None:
    found = noise(0).dropped(torch.ones(40, 500, dtype=torch.float64), 0.3, channels=False)
    values, counts = found.unique(return_counts=True)
    assert torch.allclose(values, torch.tensor([0.0, 1 / 0.7], dtype=torch.float64))
    assert abs(counts[0] / found.numel() - 0.3) < 0.01  # four standard deviations are 0.013


def test_everything_may_be_dropped() -> None:
    assert not noise(0).dropped(torch.ones(4, 5), 1.0, channels=False).any()


def test_channels_are_dropped_whole() -> None:
    found = noise(0).dropped(torch.ones(10, 8, 3, 3), 0.5, channels=True).flatten(2)
    assert torch.equal(found.amin(2), found.amax(2))
    assert 0 < (found.amax(2) == 0).double().mean() < 1


def test_a_replica_draws_the_same_whoever_is_beside_it() -> None:
    x = torch.ones(6, 50)
    together, alone = noise(3, 7).dropped(x, 0.5, channels=False), noise(7).dropped(x[:3], 0.5, channels=False)
    assert torch.equal(together[3:], alone)
    assert not torch.equal(together[:3], together[3:])


def test_normal_numbers_are_each_replicas_own() -> None:
    together, alone = noise(3, 7), noise(7)
    found = together.normal((40, 50), torch.ones(1, dtype=torch.float64))
    assert together.drawn
    assert torch.equal(found[1], alone.normal((40, 50), torch.ones(1, dtype=torch.float64))[0])
    assert abs(float(found[0].mean())) < 0.1  # four standard deviations are 0.09
    assert abs(float(found[0].std()) - 1) < 0.07


def test_unknown_draws_come_from_the_replica_and_leave_no_trace() -> None:
    def drawn(source: Noise, replica: int) -> Tensor:
        with source.alone(replica):
            return torch.rand(5)

    both, before = noise(3, 7), torch.get_rng_state()
    found = [drawn(both, 0), drawn(both, 1), drawn(both, 0)]
    assert torch.equal(torch.get_rng_state(), before)
    generator = torch_generator(3, "dropout")
    assert torch.equal(torch.stack(found[::2]), torch.stack([torch.rand(5, generator=generator) for _ in range(2)]))
    assert torch.equal(found[1], torch.rand(5, generator=torch_generator(7, "dropout")))


def test_dropout_can_be_left_out_and_is_noticed() -> None:
    x = torch.rand(4, 6, 2, 2)
    with Undropped() as quiet:
        assert torch.equal(x.relu(), x)
        assert not quiet.met
        assert torch.equal(nn.Dropout(0.9)(x), x)
        assert torch.equal(dropout2d(dropout(x)), x)
    assert quiet.met == {4}


def test_a_steps_numbers_depend_on_seed_and_step_alone() -> None:
    def drawn(chance: Chance, step: int) -> tuple[Tensor, Tensor]:
        chance.begin(step)
        x = torch.ones(len(chance.seeds), 30)
        return chance.labelled.dropped(x, 0.5, channels=False), chance.unlabelled.dropped(x, 0.5, channels=False)

    both, alone = Chance([3, 7], CPU), Chance([7], CPU)
    both.labelled.drawn = alone.labelled.drawn = True
    labelled, unlabelled = drawn(both, 4)
    alone.labelled.dropped(torch.ones(1, 99), 0.5, channels=False)  # what an earlier step took does not matter
    assert torch.equal(drawn(alone, 4)[0], labelled[1:])
    assert torch.equal(drawn(alone, 4)[1], unlabelled[1:])
    assert not torch.equal(labelled, unlabelled)
    assert not torch.equal(drawn(both, 5)[0], labelled)


def test_who_draws_nothing_is_left_alone() -> None:
    chance = Chance([3], CPU)
    before = chance.labelled.generators[0].get_state()
    chance.begin(4)
    assert torch.equal(chance.labelled.generators[0].get_state(), before)
    assert chance.labelled.generators[0].initial_seed() == derive(3, "dropout", "labelled", 0)


def test_networks_of_another_purpose_draw_other_numbers() -> None:
    drawn = []
    for purpose in ("", "teacher"):
        chance = Chance([3], torch.device("cpu"), purpose)
        drawn.append(chance.labelled.dropped(torch.ones(1, 50), 0.5, channels=False))
    assert not torch.equal(*drawn)


def test_numbers_for_images_are_each_replicas_own() -> None:
    like = torch.zeros(1, dtype=torch.float64)
    both, alone = noise(3, 7).uniform(50, 4, like), noise(7).uniform(50, 4, like)
    assert torch.equal(both[1:], alone)
    assert both.shape == (2, 50, 4)
    assert abs(both.mean() - 0.5) < 0.06  # four standard deviations
    assert 0 <= both.min() < both.max() < 1


def test_a_first_draw_that_comes_late_is_that_of_its_step_whoever_drew_before() -> None:
    """Replica 7 uses no unlabelled images in the first step, where the one beside it does."""
    together, alone = Chance([3, 7], CPU), Chance([7], CPU)
    like = torch.ones(1, dtype=torch.float64)
    for chance in (together, alone):
        chance.begin(0)
    together.unlabelled.uniform(2, 3, like)
    for chance in (together, alone):
        chance.begin(1)
    labelled = [chance.labelled.uniform(2, 3, like)[-1] for chance in (together, alone)]
    unlabelled = [chance.unlabelled.uniform(2, 3, like)[-1] for chance in (together, alone)]
    again = [chance.labelled.uniform(2, 3, like)[-1] for chance in (together, alone)]
    assert torch.equal(*labelled)
    assert torch.equal(*unlabelled)
    assert torch.equal(*again)
    assert not torch.equal(labelled[0], again[0])


def test_silent_chance_drops_nothing_and_draws_all_else() -> None:
    chance = Chance([0], CPU)
    x = torch.ones(4, 5)
    with chance.silent(), chance.unlabelled.alone(0):
        assert torch.equal(dropout(x), x)
        drawn = torch.rand(5)
    with Chance([0], CPU).unlabelled.alone(0):
        assert torch.equal(torch.rand(5), drawn)
    with chance.labelled.alone(0):
        assert not torch.equal(dropout(x), x)


def test_chance_is_silent_no_longer_than_asked() -> None:
    chance = Chance([0], CPU)
    with pytest.raises(ValueError, match="stop"), chance.silent():
        raise ValueError("stop")
    assert not chance.labelled.silent
    assert not chance.unlabelled.silent
