import numpy as np
import pytest
from PIL import Image

from gradcast.errors import GradcastError
from gradcast.data.digits import digits
from gradcast.data.images import Images, Source, move_pixels
from gradcast.streams.scenarios import Scenario, build, rotation
from gradcast.streams.stream import Stream


def stream(
    scenario: Scenario, tasks: int = 4, classes: int | None = None, samples: int | None = None, seed: int = 0
) -> Stream:
    return build(digits(0), scenario, tasks=tasks, classes_per_task=classes, samples=samples, data_seed=seed)


@pytest.mark.parametrize("angle", [0.0, 4.7, 45.0, 90.0, 131.313, 179.99])
@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 9, 12)])
def test_rotation_is_pillows(angle: float, shape: tuple[int, int, int]) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    found = move_pixels(pixels[None], rotation(shape, angle))[0]
    expected = [np.asarray(Image.fromarray(plane).rotate(angle, Image.Resampling.NEAREST)) for plane in pixels]
    assert np.array_equal(found, np.stack(expected))


def test_angles_lie_in_equal_parts_of_a_half_turn_and_follow_the_data_seed() -> None:
    angles = stream("rotated", tasks=20).facts["angles"]
    assert all(9 * t <= angle < 9 * t + 9 for t, angle in enumerate(angles))
    assert np.array_equal(angles, stream("rotated", tasks=20).facts["angles"])
    assert not np.array_equal(angles, stream("rotated", tasks=20, seed=1).facts["angles"])


def test_permutations_are_permutations_and_the_first_task_has_one_too() -> None:
    built = stream("permuted")
    permutations = built.facts["permutations"]
    assert permutations.shape == (4, 64)
    assert all(np.array_equal(np.sort(order), np.arange(64)) for order in permutations)
    assert not np.array_equal(permutations[0], np.arange(64))
    test = built.test(1).x.reshape(-1, 64)
    assert np.array_equal(test, digits(0).test.x.reshape(-1, 64)[:, permutations[1]])


def test_split_gives_each_task_its_classes_in_natural_order() -> None:
    built = stream("split", tasks=3, classes=3)
    assert built.facts["class_order"].tolist() == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert built.width == 3
    source = digits(0)
    assert np.array_equal(built.tasks[1].train.x, source.train.x[(source.train.y >= 3) & (source.train.y < 6)])
    assert set(built.tasks[1].test.y) == {0, 1, 2}


def test_split_shares_the_classes_out_evenly() -> None:
    assert stream("split", tasks=5).width == 2
    assert stream("split", tasks=3).width == 3


@pytest.mark.parametrize(
    ("tasks", "classes", "needed"), [(6, 2, "6 tasks of 2 classes need 12"), (11, None, "11 tasks of 1")]
)
def test_more_tasks_than_classes_allow(tasks: int, classes: int | None, needed: str) -> None:
    with pytest.raises(GradcastError, match=f"{needed}.*digits has 10"):
        stream("split", tasks=tasks, classes=classes)


def test_classes_per_task_only_for_split() -> None:
    with pytest.raises(GradcastError, match="applies to the scenario 'split'"):
        stream("rotated", classes=2)


def test_too_many_samples() -> None:
    with pytest.raises(GradcastError, match=r"task 0 has 1297 training images, stream.samples asks for 5000"):
        stream("rotated", samples=5000)


def test_an_empty_task_is_named() -> None:
    images = Images(np.zeros((4, 1, 2, 2), np.uint8), np.array([0, 1, 2, 2]))
    without_tests = Images(images.x[:2], images.y[:2])
    with pytest.raises(GradcastError, match=r"task 1 .*has no training or no test images"):
        build(Source("tiny", images, without_tests, 4), "split", tasks=2, classes_per_task=2, samples=None, data_seed=0)
