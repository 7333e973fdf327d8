import pytest
import torch

from gradcast.cluster.ranks import Ranks
from gradcast.networks.alexnet import AlexNetLike
from gradcast.replicas.passes import folded
from gradcast.replicas.passes.chance import Noise
from gradcast.replicas.passes.part import Part
from tests.cluster.two_ranks import ROOT, divided_passes


def parts(replicas: int, passes: int, count: int) -> list[Part]:
    return [Part(Ranks(number, 2, number, ROOT), replicas, passes, count) for number in range(2)]


def test_every_rank_has_its_images_of_every_pass() -> None:
    rows = torch.arange(2 * 3 * 5)
    own = [part.own(rows).view(2, 3, -1) for part in parts(2, 3, 5)]
    assert torch.equal(torch.cat(own, dim=2), rows.view(2, 3, 5))
    assert own[0].shape[2] == 3


def test_dropout_of_the_parts_is_that_of_the_whole() -> None:
    whole = torch.rand(2 * 5, 4, 3, 3).contiguous(memory_format=torch.channels_last)
    for channels in (False, True):
        expected = noise().dropped(whole, 0.4, channels=channels)
        for part in parts(2, 1, 5):
            own = part.own(whole).contiguous(memory_format=torch.channels_last)
            assert torch.equal(part.dropped(noise(), own, 0.4, channels=channels), part.own(expected))


def noise() -> Noise:
    return Noise([torch.Generator().manual_seed(seed) for seed in range(2)])


def test_the_numbers_of_a_channel_are_counted_over_all_ranks() -> None:
    for part in parts(2, 3, 5):
        own = part.own(torch.rand(2 * 3 * 5, 4, 2, 2))
        assert part.values(own) == 5 * 2 * 2


def test_rows_are_gathered_in_their_order() -> None:
    assert divided_passes()["said part"].flatten().tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("count", [2, 3, 5])
@pytest.mark.parametrize("shape", [(1, 12, 12), (3, 12, 12)])
def test_shares_of_a_single_image_meet_the_same_dropout(count: int, shape: tuple[int, int, int]) -> None:
    """Whether a convolution's output lies by channels or by pixels decides the order of the numbers."""
    torch.manual_seed(0)
    module = AlexNetLike(4, shape=shape, latent=4, widths=(4, 4), channels=(2, 3, 2)).double()
    weights = {name: torch.stack([own.detach()[None]] * 2) for name, own in module.named_parameters()}
    x = torch.rand(2 * count, *shape, dtype=torch.float64)
    whole = folded.outputs(module, weights, {}, x, noise())
    for part in parts(2, 1, count):
        own = folded.outputs(module, weights, {}, part.own(x), noise(), part)
        assert torch.allclose(own, part.own(whole), rtol=1e-12, atol=1e-14)
