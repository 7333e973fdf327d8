from typing import Any

import pytest

from gradcast.results.task_list import HEAD, task_list

FACTS: dict[str, Any] = {
    "task_names": ["january", "february"],
    "classes": ["cat", "dog", "owl"],
    "task_classes": [[0, 1], [1, 2]],
    "labelled_images": [1200, 8],
    "test_images": [30, 2],
}


def test_every_task_with_its_classes_and_images() -> None:
    rows = task_list(FACTS)
    assert rows == [["1", "january", "cat, dog", "1,200", "30"], ["2", "february", "dog, owl", "8", "2"]]
    assert {len(row) for row in rows} == {len(HEAD)}


@pytest.mark.parametrize(
    "change",
    [
        {"task_names": None},
        {"task_names": ["january"]},
        {"classes": ["cat"]},
        {"task_classes": [[0, 1], "x"]},
        {"labelled_images": ["many", 3]},
    ],
)
def test_what_does_not_fit_together_is_left_out(change: dict[str, Any]) -> None:
    assert task_list(FACTS | change) == []
    assert task_list({}) == []
