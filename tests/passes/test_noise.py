import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, dropout2d

from gradcast.passes.noise import Noise, Undropped
from gradcast.randomness import torch_generator


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
    assert quiet.met
