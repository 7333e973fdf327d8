import torch

from gradcast.replicas.passes.chance import Chance
from gradcast.streams.augment import AUGMENTATIONS
from gradcast.streams.reaugment import Reaugment
from gradcast.streams.scale import Scale

SCALE = Scale((0.5, 0.4, 0.3), (0.2, 0.3, 0.1))
PLAIN = torch.rand(2, 5, 3, 6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def noise(*seeds: int) -> Chance:
    return Chance(seeds, torch.device("cpu"))


def test_images_are_changed_on_the_scale_of_the_augmentation() -> None:
    drawn, numbers = noise(3, 4), noise(3, 4).labelled.uniform(5, 1, PLAIN)
    found = Reaugment((AUGMENTATIONS["flip"],), SCALE)(SCALE(PLAIN, PLAIN.dtype), drawn.labelled)
    for replica, own in enumerate(numbers[:, :, 0] < 0.5):
        for image, turned in enumerate(own.tolist()):
            plain = PLAIN[replica, image]
            expected = SCALE(plain.flip(-1) if turned else plain, plain.dtype)
            torch.testing.assert_close(found[replica, image], expected)
    assert drawn.labelled.drawn
    assert not drawn.unlabelled.drawn


def test_a_replica_alone_sees_what_it_sees_beside_others() -> None:
    show = Reaugment((AUGMENTATIONS["shift"], AUGMENTATIONS["flip"]), Scale())
    together, alone = show(PLAIN, noise(3, 4).labelled), show(PLAIN[1:], noise(4).labelled)
    assert torch.equal(together[1:], alone)
