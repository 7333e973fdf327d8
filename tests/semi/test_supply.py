import numpy as np
import pytest
import torch
from gradcast.semi.supply import Supply
from torch import Tensor

from gradcast.core import Batch, Unlabelled
from gradcast.errors import GradcastError
from gradcast.runs.checkpoint.state import pack, restore
from gradcast.streams.pool import Pool, named
from gradcast.streams.scale import Scale
from tests.helpers import CPU
from tests.semi.scene import supply

PLACES = np.arange(12, dtype=np.uint8)


def numbered(seeds: tuple[int, ...] = (1, 2), **how: int) -> Supply:
    """Twelve images that show nothing but their own number; the first four and the last four are labelled."""
    x = np.broadcast_to(PLACES[:, None, None, None], (12, 1, 4, 4))
    pool = Pool(x, Scale(), device=CPU, dtype=torch.float64)
    labelled = np.array([PLACES[:4], PLACES[8:]])[: len(seeds)].astype(np.int64)
    return Supply(pool, PLACES.astype(np.int64) % 3, labelled, seeds, **{"batch": 3, "extra": 2, **how})


def seen(x: Tensor) -> list[list[int]]:
    """Which images these are."""
    return (255 * x[..., 0, 0, 0]).round().long().tolist()


def drawn(own: Supply, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of labelled and unlabelled images, [replicas, images]."""
    both: list[tuple[Batch, Unlabelled | None]] = [own.next() for _ in range(steps)]
    labelled = np.concatenate([seen(batch.x) for batch, _ in both], axis=1)
    return labelled, np.concatenate([seen(extra.x) for _, extra in both if extra is not None], axis=1)


def test_walks_are_endless_epoch_by_epoch_and_independent() -> None:
    labelled, unlabelled = drawn(numbered(), 16)
    for replica, own in enumerate([PLACES[:4], PLACES[8:]]):
        rest = np.setdiff1d(PLACES, own)
        assert all(np.array_equal(np.sort(turn), own) for turn in labelled[replica].reshape(12, 4))
        assert all(np.array_equal(np.sort(turn), rest) for turn in unlabelled[replica].reshape(4, 8))
    longer, _ = drawn(numbered(extra=5), 16)
    assert np.array_equal(labelled, longer)  # whatever happens to the others


def test_labels_belong_to_their_images_and_views_show_the_same_ones() -> None:
    own = numbered(views=2)
    for _ in range(4):
        batch, extra = own.next()
        assert extra is not None
        assert batch.y.tolist() == [[place % 3 for place in row] for row in seen(batch.x)]
        assert extra.images == 2
        assert extra.truth is not None
        assert extra.truth.tolist() == [[place % 3 for place in row] for row in seen(extra.x[:, :2])]
        assert seen(extra.x[:, :2]) == seen(extra.x[:, 2:])


def test_replicas_do_not_feel_each_other() -> None:
    together, alone = drawn(numbered((1, 2)), 9), drawn(numbered((1,)), 9)
    assert np.array_equal(together[0][:1], alone[0])
    assert np.array_equal(together[1][:1], alone[1])


def test_it_goes_on_where_it_was() -> None:
    first, again = supply([3, 4], extra=8), supply([3, 4], extra=8)
    for own in (first, again):
        own.pool.steps = named(["crop", "flip"])
    for _ in range(3):
        first.next()
    tensors: dict[str, Tensor] = {}
    restore(again, pack(first, tensors), tensors, CPU)
    (batch, extra), (same, too) = first.next(), again.next()
    assert torch.equal(batch.x, same.x)
    assert torch.equal(batch.y, same.y)
    assert extra is not None
    assert too is not None
    assert torch.equal(extra.x, too.x)


def test_crops_shift_by_up_to_four_pixels_into_black_before_images_are_normalised() -> None:
    """White images: what is black was shifted in, and says by how much."""
    pool = Pool(
        np.full((12, 1, 6, 6), 255, dtype=np.uint8),
        Scale((0.5,), (0.25,)),
        named(["crop"]),
        device=CPU,
        dtype=torch.float64,
    )
    own = Supply(pool, np.arange(12) % 3, np.arange(4)[None], [3], batch=400)
    x = own.next()[0].x[0, :, 0]
    white, black = (1 - 0.5) / 0.25, (0 - 0.5) / 0.25
    assert set(x.unique().tolist()) == {white, black}
    rows, columns = ((x == white).any(axis) for axis in (2, 1))
    for kept in (rows, columns):
        assert kept.sum(1).unique().tolist() == [2, 3, 4, 5, 6]  # shifts by 4, 3, 2, 1 and 0 pixels
        assert {tuple(each) for each in kept.tolist()} == {
            tuple(0 <= place + shift < 6 for place in range(6)) for shift in range(-4, 5)
        }


def test_too_few_images_without_labels_are_said_unless_none_are_wanted() -> None:
    with pytest.raises(GradcastError, match=r"8 images have no label and a batch of them shall have 9; lower policy"):
        numbered(extra=9)
    everything = np.arange(12)[None]
    pool = numbered().pool
    with pytest.raises(GradcastError, match="every training image has a label and none is left without"):
        Supply(pool, everything[0], everything, [1], batch=3, extra=2)
    batch, extra = Supply(pool, everything[0], everything, [1], batch=3).next()
    assert batch.x.shape == (1, 3, 1, 4, 4)
    assert extra is None
