import numpy as np
import pytest

from gradcast.data.digits import digits
from gradcast.data.images import Images, Source
from gradcast.errors import GradcastError
from gradcast.streams.choose_labels import choose_labelled, of_task

CLASSES = 3
Y = np.array([0, 1, 2] * 10 + [0] * 5)


def test_every_class_has_as_many_and_the_seed_decides_which() -> None:
    found = choose_labelled(Y, 12, 7, classes=CLASSES)
    assert np.bincount(Y[found]).tolist() == [4, 4, 4]
    assert len(set(found.tolist())) == 12
    assert found.tolist() == sorted(found.tolist())
    assert found.tolist() == choose_labelled(Y, 12, 7, classes=CLASSES).tolist()
    assert found.tolist() != choose_labelled(Y, 12, 8, classes=CLASSES).tolist()


def test_fewer_labels_are_part_of_more() -> None:
    few, many = (set(choose_labelled(Y, count, 7, classes=CLASSES).tolist()) for count in (6, 12))
    assert few < many


def test_what_cannot_be_shared_out_goes_to_classes_that_are_drawn() -> None:
    counts = [np.bincount(Y[choose_labelled(Y, 13, seed, classes=CLASSES)]).tolist() for seed in range(20)]
    assert all(sorted(each) == [4, 4, 5] for each in counts)
    assert {each.index(5) for each in counts} == {0, 1, 2}


def test_what_is_too_much_for_some_seed_is_too_much_for_every_seed() -> None:
    for seed in range(5):  # 31 labels are ten or eleven of each, and only the first class has eleven
        with pytest.raises(GradcastError, match="class 1 of task 0 has 10 training images and 11 are to be labelled"):
            choose_labelled(Y, 31, seed, classes=CLASSES)
    assert len(choose_labelled(Y, 30, 0, classes=CLASSES)) == 30


def test_the_published_numbers_fit_the_digits() -> None:
    y = digits(0).train.y
    found = choose_labelled(y, 100, 7788, classes=10)
    assert np.bincount(y[found]).tolist() == [10] * 10


def test_every_task_has_a_choice_of_its_own_and_the_first_has_the_one_it_always_had() -> None:
    first, second = (choose_labelled(Y, 12, 7, task=task, classes=CLASSES) for task in (0, 1))
    assert first.tolist() == choose_labelled(Y, 12, 7, classes=CLASSES).tolist()
    assert first.tolist() != second.tolist()
    assert (of_task(0), of_task(3)) == ((), (3,))


@pytest.mark.parametrize(
    ("count", "sentence"),
    [
        (36, "36 labels are asked for and task 0 has 35 training images; lower stream.labels"),
        (2, "2 labels leave some of the 3 classes without any; set stream.labels to 3 or more"),
        (33, "class 1 of task 0 has 10 training images and 11 are to be labelled; lower stream.labels"),
    ],
)
def test_what_cannot_be_labelled_is_said(count: int, sentence: str) -> None:
    with pytest.raises(GradcastError) as caught:
        choose_labelled(Y, count, 0, classes=CLASSES)
    assert str(caught.value) == sentence


def test_a_class_without_images_and_labels_out_of_range_are_said() -> None:
    with pytest.raises(GradcastError, match="class 3 of task 0 has 0 training images and 1 are to be labelled"):
        choose_labelled(Y, 4, 0, classes=4)
    x = np.zeros((3, 1, 2, 2), dtype=np.uint8)
    strange, fine = Images(x, np.array([0, 1, 3])), Images(x, np.array([0, 1, 2]))
    with pytest.raises(GradcastError, match="training labels from 0 to 3 but 3 classes"):
        Source("mine", strange, fine, ("a", "b", "c"))
