import numpy as np

from gradcast.bench.stand_in import stand_in


def test_every_class_has_its_images() -> None:
    found = stand_in(3, 4, 2, 8)
    assert found.train.x.shape == (12, 3, 8, 8)
    assert np.bincount(found.train.y).tolist() == [4, 4, 4]
    assert np.bincount(found.test.y).tolist() == [2, 2, 2]
    assert found.train.x.dtype == np.uint8
    assert len(np.unique(found.train.x)) == 256
    assert found.classes == ("0", "1", "2")
