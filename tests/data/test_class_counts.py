from gradcast.data.class_counts import MOST, in_words


def test_every_class_with_its_images() -> None:
    assert in_words(["cat", "dog"], [1200, 3], [4, 1]) == (
        "2 classes with images to train and to test on: cat (1,200 and 4), dog (3 and 1)"
    )


def test_of_many_classes_the_first_are_named() -> None:
    said = in_words([f"c{number}" for number in range(MOST + 5)], [2] * (MOST + 5), [1] * (MOST + 5))
    assert said.endswith(f"c{MOST - 1} (2 and 1) and 5 more")
