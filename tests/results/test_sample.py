import pytest

from gradcast.results.sample import Sample, chance, chance_without_task
from tests.trained_runs import finished


def test_seeds_far_below_the_median_have_collapsed() -> None:
    assert Sample.of("row", [85.0, 80.9, 86.0, 73.1, 85.5]).collapsed == [1, 3]  # the median is 85
    assert Sample.of("row", [85.0, 81.0]).collapsed == []
    assert Sample("row", {}, {0: "step 1"}).collapsed == []


def test_seeds_that_diverged_are_seeds() -> None:
    one, another = Sample("a", {3: 80.0, 1: 81.0}, {2: "step 1"}), Sample("b", {1: 80.0, 2: 80.0})
    assert one.seeds == [3, 1, 2]
    assert one.common_seeds(another) == [1, 2]


@pytest.mark.parametrize(("acc", "lost"), [([10.0, 11.9], True), ([11.0, 11.1], False), ([9.0, 9.0], True)])
def test_a_row_within_a_point_of_chance_has_learned_nothing(acc: list[float], lost: bool) -> None:
    row = Sample("row", dict(enumerate(acc)), chance=10.0)
    assert row.at_chance is lost
    assert not Sample.of("row", acc).at_chance


def test_chance_is_one_of_the_classes_that_a_task_chooses_among() -> None:
    assert chance({"classes_per_task": 2}) == 50.0
    assert chance({"classes_per_task": 4, "task_classes": [[3, 5, 8, 9], [1, 2]]}) == 37.5
    assert chance({}) is None
    assert finished()[1][0].chance == 10.0


@pytest.mark.parametrize(("shares", "told"), [({}, False), ({0: 0.29}, False), ({0: 0.3, 1: 0.05, 2: 0.0}, True)])
def test_a_row_that_undid_more_than_a_tenth_of_its_steps_is_trained_in_part(
    shares: dict[int, float], told: bool
) -> None:
    row = Sample("row", {0: 80.0, 1: 81.0, 2: 79.0}, undone=shares)
    assert row.undone_share == pytest.approx(sum(shares.values()) / 3)
    assert row.trained_in_part is told
    assert not Sample("row", {}, {0: "step 1"}, undone=shares).trained_in_part


def test_chance_without_the_task_is_one_of_all_classes() -> None:
    assert chance_without_task({"class_order": [[0, 1], [2, 3]], "classes_per_task": 2}) == 25.0
    assert chance_without_task({"class_order": [[0, 1], [2, 3]], "task_classes": [[0, 1, 2], [2, 3]]}) == 25.0
    seeded = {"class_order": "numpy.random.RandomState(seed).permutation(10)", "classes_per_task": 2}
    assert chance_without_task(seeded | {"labelled_images": [50, 50]}) == 25.0
    assert chance_without_task({}) is None
