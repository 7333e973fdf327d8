from gradcast.data.class_counts import MOST, TaskCounts, in_words, tasks_in_words


def test_every_class_with_its_images() -> None:
    assert in_words(["cat", "dog"], [1200, 3], [4, 1]) == (
        "2 classes with images to train and to test on: cat (1,200 and 4), dog (3 and 1)"
    )


def test_of_many_classes_the_first_are_named() -> None:
    said = in_words([f"c{number}" for number in range(MOST + 5)], [2] * (MOST + 5), [1] * (MOST + 5))
    assert said.endswith(f"c{MOST - 1} (2 and 1) and 5 more")


def test_tasks_tell_which_classes_are_new_and_which_return() -> None:
    many = tuple(f"c{number}" for number in range(MOST + 2))
    told = tasks_in_words([TaskCounts("a", many, 1200, 30), TaskCounts("b", ("c1", "z"), 2, 1)])
    assert told[0].startswith("task 'a': 1,200 images to train and 30 to test on; new: c0, c1, ")
    assert told[0].endswith(f"c{MOST - 1} and 2 more")
    assert told[1] == "task 'b': 2 images to train and 1 to test on; new: z; again: c1"


def test_of_many_tasks_the_first_are_told() -> None:
    told = tasks_in_words([TaskCounts(str(number), ("x",), 1, 1) for number in range(MOST + 3)])
    assert len(told) == MOST + 1
    assert told[-1] == "and 3 more tasks"
