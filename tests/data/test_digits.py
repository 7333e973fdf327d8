import numpy as np

from gradcast.data.digits import digits


def test_split_is_complete_disjoint_and_seeded() -> None:
    source = digits(0)
    assert source.shape == (1, 8, 8)
    assert (len(source.train), len(source.test), len(source.classes)) == (1297, 500, 10)
    assert set(source.train.y) == set(source.test.y) == set(range(10))
    assert source.train.x.max() == 255
    again, other = digits(0), digits(1)
    assert np.array_equal(source.test.x, again.test.x)
    assert not np.array_equal(source.test.x, other.test.x)
