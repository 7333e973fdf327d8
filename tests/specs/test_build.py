from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from gradcast.data.cache import Cache
from gradcast.data.load import Shelf, untracked
from gradcast.devices import Place
from gradcast.errors import GradcastError
from gradcast.replicas.replicas import Replicas
from gradcast.specs import build, build_stream
from gradcast.specs.text import load
from gradcast.streams.pool import TRANSFORMS, Pool
from gradcast.streams.pool_tables import FolderSpec, PatchesSpec
from tests.helpers import CPU

PLACE = Place(CPU, torch.float32)
SHELF = Shelf(Path("data"), Cache(Path("cache")), untracked)


def test_replicas_start_from_their_own_seeds() -> None:
    setting = load("digits").rows[0].setting
    stream = build_stream.stream(setting.stream, SHELF)
    heads = build.heads(setting, stream)

    def made(seeds: list[int], purpose: str = "model") -> Replicas:
        return build.replicas(lambda: build.network(setting, stream), heads, seeds, PLACE, purpose)

    both, alone = made([3, 4]), made([4])
    assert torch.equal(both.theta[1], alone.theta[0])
    assert not torch.equal(both.theta[0], both.theta[1])
    assert not torch.equal(made([3], "teacher").theta[0], both.theta[0])


def test_pools_of_every_transform_fit_the_stream(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    for number in range(5):
        Image.new("RGB", (90, 70), (50 * number, 10, 10)).save(tmp_path / "photos" / f"{number}.png")
    shelf = Shelf(tmp_path, Cache(tmp_path / "cache"), untracked)
    for shape in ((1, 8, 8), (3, 32, 32)):
        colour, size = "grey" if shape[0] == 1 else "rgb", shape[1]
        settings = [f"stream.colour={colour}", f"stream.size={size}"]
        stream = build_stream.stream(load("digits", settings).rows[0].setting.stream, shelf)
        assert stream.shape == shape
        for transform in TRANSFORMS:
            spec = FolderSpec(name="folder", path="photos", transform=transform, scale="reference")
            pool = build.pool(spec, stream, shelf, PLACE, data_seed=0)
            images, truth = pool.images(
                0, [0, 1], np.array([[0, 4], [1, 2]]), [torch.Generator().manual_seed(r) for r in range(2)]
            )
            assert (images.shape, truth) == ((2, 2, *shape), None)
            assert -2.2 <= images.min() < 0


def test_the_unlabelled_ratio_is_a_fixed_subset() -> None:
    stream = build_stream.stream(load("digits").rows[0].setting.stream, SHELF)
    pools = [build.pool(PatchesSpec(count=100, ratio=r), stream, SHELF, PLACE, data_seed=0) for r in (1.0, 0.3, 0.3)]
    whole, part, again = (pool.images(0, [0], np.arange(len(pool))[None])[0][0] for pool in pools)
    assert len(part) == 30
    assert torch.equal(part, again)
    known = {image.numpy().tobytes() for image in whole}
    assert all(image.numpy().tobytes() in known for image in part)


def test_too_many_samples() -> None:
    with pytest.raises(GradcastError, match=r"task 0 has 1297 training images, stream.samples asks for 5000"):
        build_stream.stream(load("digits", ["stream.samples=5000"]).rows[0].setting.stream, SHELF)


def test_standard_normalisation_is_recorded_and_applies_to_the_pool() -> None:
    stream = build_stream.stream(load("digits", ["stream.normalise=standard"]).rows[0].setting.stream, SHELF)
    train = stream.tasks[0].train.images().x / 255
    assert stream.describe()["mean"] == pytest.approx([train.mean()])
    assert stream.describe()["std"] == pytest.approx([train.std()])
    pool = build.pool(PatchesSpec(count=10), stream, SHELF, PLACE, data_seed=0)
    assert isinstance(pool, Pool)
    plain = (torch.from_numpy(pool.stored.x[:1]).float() / 255 - train.mean()) / train.std()
    torch.testing.assert_close(pool.images(0, [0], np.array([[0]]))[0][0], plain.float(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("scenario", "heads", "outputs"), [("rotated", "auto", 10), ("split", "auto", 10), ("split", "shared", 2)]
)
def test_heads_follow_the_scenario(scenario: str, heads: str, outputs: int) -> None:
    settings = [f"stream.scenario={scenario}", f"model.heads={heads}", "stream.tasks=5", "stream.samples=100"]
    setting = load("digits", settings).rows[0].setting
    assert build.heads(setting, build_stream.stream(setting.stream, SHELF)).outputs == outputs
