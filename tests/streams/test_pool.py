import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch

from gradcast.data.images import Pixels
from gradcast.data.stored_images import StoredImages
from gradcast.devices import Place
from gradcast.streams import pool as module
from gradcast.streams.augment import flip, grey, resize
from gradcast.streams.named_augmentations import named
from gradcast.streams.pool import TRANSFORMS, Pool, subset
from gradcast.streams.scale import Scale, reference_scale
from tests.helpers import CPU, EITHER_DEVICE


def generators(count: int) -> list[torch.Generator]:
    return [torch.Generator().manual_seed(seed) for seed in range(count)]


def test_images_are_scaled_like_the_stream_or_as_published() -> None:
    x = np.array([0, 255], np.uint8).reshape(2, 1, 1, 1)
    index = np.array([[0, 1]])
    labelled = Pool(StoredImages.of(x), Scale(), place=Place(CPU, torch.float64)).images(0, [0], index)[0]
    reference = Pool(StoredImages.of(x), reference_scale(1), place=Place(CPU, torch.float64)).images(0, [0], index)[0]
    assert labelled.flatten().tolist() == [0, 1]
    assert reference.flatten().tolist() == [-1, 1]


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32)])
def test_the_tiny_transforms_crop_sixty_of_sixty_four(shape: tuple[int, int, int]) -> None:
    """With the corner at the origin the window is the first 60 rows and columns, scaled down, grey where asked."""
    x = torch.rand(2, 3, 64, 64)
    transform = TRANSFORMS["tiny4mnist" if shape[0] == 1 else "tiny"]
    window = transform.pipeline(shape)[0]
    expected = resize(x[:, :, :60, :60], shape[1], shape[2])
    found = window.apply(x, torch.zeros(2, 2))
    torch.testing.assert_close(found, grey(expected) if shape[0] == 1 else expected)
    assert transform.shape(shape) == (3, 64, 64)
    assert [step.name for step in transform.pipeline(shape)] == ["window"] + ["flip"] * (shape[0] == 3)


def test_published_transforms_by_name() -> None:
    assert TRANSFORMS["coco"].squash
    assert TRANSFORMS["coco"].shape((3, 32, 32)) == (3, 32, 32)
    assert TRANSFORMS["coco-acl"].shape((3, 84, 84)) == (3, 256, 256)
    for name in ("cub", "car", "aircraft"):
        flipped, light = TRANSFORMS[name].pipeline((3, 32, 32))  # type: ignore[index]
        assert flipped.apply is flip
        x = torch.full((1, 3, 4, 4), 0.5)
        assert light.apply(x, torch.ones(1, 3)).flatten()[0].item() == pytest.approx(0.6)  # brightness + 20 %
    assert TRANSFORMS["plain"].pipeline((3, 32, 32)) == ()


def test_draws_are_each_replicas_own() -> None:
    x = np.random.default_rng(0).integers(0, 256, (6, 3, 64, 64), dtype=np.uint8)
    pool = Pool(StoredImages.of(x), Scale(), TRANSFORMS["tiny"].pipeline((3, 32, 32)), place=Place(CPU, torch.float32))
    index = np.array([[0, 1], [0, 1]])
    both, truth = pool.images(0, [0, 1], index, generators(2))
    assert both.shape == (2, 2, 3, 32, 32)
    assert not torch.equal(both[0], both[1])
    assert torch.equal(both[1:], pool.images(1, [1], index[1:], generators(2)[1:])[0])
    assert truth is None


def test_subset() -> None:
    x = np.arange(50, dtype=np.uint8).reshape(50, 1, 1, 1)
    whole = StoredImages.of(x)
    part = subset(whole, 0.1, 0)
    assert len(part) == 5
    drawn = part.take(np.arange(5)).flatten().tolist()
    assert drawn == sorted(drawn) == subset(whole, 0.1, 0).take(np.arange(5)).flatten().tolist()
    assert drawn != subset(whole, 0.1, 1).take(np.arange(5)).flatten().tolist()
    assert subset(whole, 1.0, 0) is whole
    assert len(subset(whole, 0.001, 0)) == 1


def test_augmentations_by_name() -> None:
    assert [step.name for step in named(["crop", "flip"])] == ["crop", "flip"]


@pytest.mark.parametrize("device", EITHER_DEVICE)
def test_of_a_large_pool_only_what_is_drawn_is_brought_to_the_device(
    monkeypatch: pytest.MonkeyPatch, device: str
) -> None:
    x = np.random.default_rng(0).integers(0, 256, (20, 3, 8, 8), dtype=np.uint8)
    taken: list[int] = []

    def enlarge(x: Pixels) -> Pixels:
        taken.append(len(x))
        return x.repeat(2, axis=2).repeat(2, axis=3)

    place, index = Place(torch.device(device), torch.float64), np.array([[3, 19], [0, 3]])
    for images in (StoredImages.of(x), StoredImages(x, (3, 16, 16), enlarge)):
        found = []
        for most in (10**6, 100):
            monkeypatch.setattr(module, "RESIDENT", most)
            pool = Pool(images, Scale(), place=place)
            taken.clear()
            found.append(pool.images(0, [0, 1], index)[0])
            assert taken == ([4] if most == 100 and images.enlarge else [])
            assert (pool.x is None) == (most == 100 or (device == "cpu" and images.enlarge is None))
        assert torch.equal(*found)
        assert found[0].device.type == device


def test_a_mapped_pool_is_not_copied(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((100, 3, 64, 64), np.uint8))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    tracemalloc.start()
    pool = Pool(StoredImages.of(mapped), Scale(), place=Place(CPU, torch.float32))
    pool.images(0, [0], np.array([[5]]))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.shares_memory(pool.stored.x, mapped)
    assert peak < mapped.nbytes / 10
