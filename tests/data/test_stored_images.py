import numpy as np

from gradcast.data import stored_images
from gradcast.data.images import Pixels, fingerprint
from gradcast.data.stored_images import StoredImages


def doubled(x: Pixels) -> Pixels:
    return x.repeat(2, axis=2).repeat(2, axis=3)


def test_only_what_is_drawn_is_enlarged() -> None:
    x = np.random.default_rng(0).integers(0, 256, (10, 3, 4, 4), dtype=np.uint8)
    seen: list[int] = []

    def enlarge(x: Pixels) -> Pixels:
        seen.append(len(x))
        return doubled(x)

    stored = StoredImages(x, (3, 8, 8), enlarge)
    index = np.array([[1, 5], [9, 1]])
    assert np.array_equal(stored.take(index), doubled(x)[index])
    assert seen == [4]
    assert (len(stored), stored.size) == (10, 10 * 192)


def test_the_digest_is_that_of_the_images_as_they_are_drawn(monkeypatch: object) -> None:
    x = np.random.default_rng(0).integers(0, 256, (10, 3, 4, 4), dtype=np.uint8)
    stored, rows = StoredImages(x, (3, 8, 8), doubled), np.array([2, 7, 8])
    assert stored.content == fingerprint(doubled(x))
    assert stored.only(rows).content == fingerprint(doubled(x)[rows])
    assert stored.only(rows).only(np.array([1])).take(np.array([0])).tolist() == doubled(x)[[7]].tolist()
    assert StoredImages(x, (3, 8, 8), doubled, known="known").content == "known"
    assert StoredImages(x, (3, 8, 8), known="known").only(rows).known is None


def test_all_images_are_gone_through_in_small_parts() -> None:
    x = np.zeros((3, 3, 4, 4), np.uint8)
    large = StoredImages(
        x, (3, 4, stored_images.PART // 24), lambda x: np.zeros((len(x), 3, 4, stored_images.PART // 24), np.uint8)
    )
    assert large.part_count == len(list(large.parts())) == 2
    assert StoredImages.of(x).part_count == 1
