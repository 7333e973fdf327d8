import random
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from gradcast.data.digits import digits
from gradcast.data.own_tasks import own_tasks
from gradcast.errors import GradcastError
from gradcast.replicas.heads import Heads
from gradcast.specs.text import load
from gradcast.streams.blurry import blurred
from gradcast.streams.scenarios import own, split
from gradcast.streams.stream import TASK_CLASSES, Subset, Task
from tests.runs.checkpoint.scene import Scene, tiny
from tests.trained_runs import small


def tasks() -> list[Task]:
    return split(digits(0), 5, 0, classes_per_task=None, class_order="natural")[0]


def shown(task: Task, part: Subset) -> Counter[tuple[bytes, int]]:
    """Every image with its class in the stream."""
    return Counter((x.tobytes(), task.classes[y]) for x, y in zip(part.images().x, part.y, strict=True))


@pytest.mark.parametrize("share", [0.1, 0.58, 1.0])
def test_the_same_images_come_in_all_and_every_count_is_exact(share: float) -> None:
    sharp = tasks()
    mixed, facts = blurred(sharp, share, 3)
    assert sum((shown(t, t.train) for t in mixed), Counter()) == sum((shown(t, t.train) for t in sharp), Counter())
    sizes = [len(task.train) for task in sharp]
    moved = [round(share * min(pair) * 500) // 1000 for pair in pairwise(sizes)]
    foreign = [a + b for a, b in zip([0, *moved], [*moved, 0], strict=True)]
    assert facts["foreign_images"] == foreign
    for number, (before, after) in enumerate(zip(sharp, mixed, strict=True)):
        assert len(after.train) == len(before.train)
        assert sum((shown(after, after.train) - shown(before, before.train)).values()) == foreign[number]
        assert shown(after, after.test) == shown(before, before.test)
        neighbours = sharp[max(number - 1, 0) : number + 2]
        assert set(after.classes) <= {label for each in neighbours for label in each.classes}


def test_a_tasks_own_classes_come_first_and_every_class_has_one_column() -> None:
    sharp = tasks()
    mixed, facts = blurred(sharp, 0.5, 0)
    assert [task.classes[:2] for task in mixed] == [task.classes for task in sharp]
    assert facts[TASK_CLASSES] == [list(task.classes) for task in mixed]
    heads = Heads.of([task.classes for task in mixed], "masked")
    assert heads.logits == 10  # a foreign image is learned in the column of its own class
    names = {}
    for columns, task in zip(heads.task_columns, mixed, strict=True):
        for column, label in zip(columns, task.classes, strict=True):
            assert names.setdefault(column, label) == label


def test_it_depends_on_the_data_seed_and_on_nothing_else() -> None:
    draws = [blurred(tasks(), 0.2, seed)[0][2].train.places.tolist() for seed in (0, 0, 1)]
    assert draws[0] == draws[1] != draws[2]


def test_tasks_with_sources_of_their_own_exchange_images_too() -> None:
    x = np.arange(24 * 4, dtype=np.uint8).reshape(24, 2, 2)
    sharp = own(own_tasks([(x[:16], [0, 1] * 8, x[:2], [0, 1]), (x[16:], [1, 2] * 4, x[:2], [1, 2])]))[0]
    mixed, facts = blurred(sharp, 0.5, 0)
    assert facts["foreign_images"] == [2, 2]
    assert sum((shown(t, t.train) for t in mixed), Counter()) == sum((shown(t, t.train) for t in sharp), Counter())


def test_a_share_that_moves_nothing_is_refused() -> None:
    with pytest.raises(GradcastError, match=r"stream.blurry = 0.0001 moves no image, the largest task has \d+; raise"):
        blurred(tasks(), 0.0001, 0)


@pytest.mark.parametrize(
    "settings",
    [
        ["stream.scenario=rotated"],
        ["stream.scenario=permuted"],
        ["stream.scenario=split", "stream.class_order=seeded"],
        ["stream.scenario=split", "stream.tasks=1"],
    ],
)
def test_where_there_is_no_border_it_is_refused(settings: list[str]) -> None:
    with pytest.raises(GradcastError, match=r"stream.blurry exchanges images of neighbouring tasks"):
        load("digits", ["stream.blurry=0.1", *settings])


def test_a_specification_without_it_says_nothing_of_it() -> None:
    stream = small("stream.scenario=split").rows[0].setting.stream
    assert "blurry" not in stream.model_dump()
    assert stream.model_copy(update={"blurry": 0.1}).model_dump()["blurry"] == 0.1


@pytest.mark.parametrize("heads", ["masked", "seen", "all"])
def test_blurry_streams_resume_to_the_same_bytes(tmp_path: Path, heads: str) -> None:
    scene = Scene(tmp_path)
    spec = tiny("stream.scenario=split", "stream.classes_per_task=3", "stream.blurry=0.2", f"model.heads={heads}")
    whole = scene.train(spec, "whole")
    assert whole is not None
    assert scene.with_cuts(spec, "cut", random.Random(heads)) == whole
