import json
from collections import defaultdict

import pytest
import torch
from torch import Tensor

from gradcast.core import Batch
from gradcast.memories.by_class import ClassMemory
from gradcast.replicas.heads import Heads, HeadsKind
from gradcast.runs.checkpoint.state import pack, restore
from tests.helpers import CPU


def labelled(labels: list[list[int]], task: int = 0, first: int = 0) -> Batch:
    """Image n of a replica holds n."""
    y = torch.tensor(labels)
    x = torch.arange(first, first + y.shape[1], dtype=torch.float64).expand(y.shape).unsqueeze(-1)
    return Batch(x.contiguous(), y, task)


def stream(replicas: int, tasks: int, batches: int, classes: int = 3, size: int = 7) -> list[Batch]:
    generator = torch.Generator().manual_seed(0)
    return [
        labelled(
            torch.randint(classes, (replicas, size), generator=generator).tolist(), number // batches, size * number
        )
        for number in range(tasks * batches)
    ]


def everything(memory: ClassMemory, replica: int, task: int) -> list[tuple[int, int, int]]:
    """All that tasks but this one hold, without repetitions: image, label and task."""
    drawn = memory.draw(task, 10_000)
    assert drawn is not None
    columns = (each[replica].flatten().long().tolist() for each in (drawn.x, drawn.y, drawn.tasks))
    return sorted(set(zip(*columns, strict=True)))


def test_places_are_shared_as_equally_as_can_be() -> None:
    def rings(size: int, classes: int) -> list[int]:
        return ClassMemory(Heads.even(classes, 2), size, seeds=[0]).rings[1]

    assert rings(65, 5) == [13] * 5
    assert rings(65, 10) == [7] * 5 + [6] * 5
    assert rings(3, 3) == [1, 1, 1]


def test_all_of_a_task_that_is_over_and_twice_where_a_class_had_too_few() -> None:
    memory = ClassMemory(Heads.even(2, 2), 4, seeds=[0, 1])
    memory.write(labelled([[0, 0, 0, 1], [1, 0, 1, 0]]))
    memory.write(labelled([[0, 1, 0, 1]] * 2, task=1, first=10))
    found = memory.all_of(0)
    assert found.tasks.tolist() == [[0] * 4] * 2
    assert found.x[1].flatten().sort().values.tolist() == [0, 1, 2, 3]
    assert found.y[1][found.x[1].flatten().argsort()].tolist() == [1, 0, 1, 0]
    assert set(found.x[0].flatten().tolist()) == {1, 2, 3}  # the last two of class 0, the only one of class 1
    assert found.x.data_ptr() == memory.all_of(1).x.data_ptr()  # in place
    assert memory.all_of(1).x[0].flatten().sort().values.tolist() == [10, 11, 12, 13]


def test_the_last_images_of_every_class_are_kept_as_they_come() -> None:
    """Against lists: also where a batch brings more of a class than there is room for."""
    memory = ClassMemory(Heads.even(3, 3), 8, seeds=[0, 1])  # rings of 3, 3 and 2
    lists: defaultdict[tuple[int, int, int], list[int]] = defaultdict(list)
    for batch in stream(2, 3, 4, size=9):
        memory.write(batch)
        for replica in range(2):
            for image, label in zip(batch.x[replica].flatten().tolist(), batch.y[replica].tolist(), strict=True):
                own = lists[replica, batch.task, label]
                own.append(int(image))
                del own[: -memory.rings[batch.task][label]]
        for replica in range(2):
            expected = sorted(
                (image, label, task)
                for (r, task, label), images in lists.items() if r == replica
                for image in images
            )  # fmt: skip
            assert everything(memory, replica, 99) == expected


def test_nothing_is_drawn_in_the_first_task_and_only_earlier_tasks_later() -> None:
    memory, seen = ClassMemory(Heads.even(3, 3), 6, seeds=[0, 1]), []
    for batch in stream(2, 3, 5):
        drawn = memory.draw(batch.task, 8)
        seen.append((drawn is None, 0 if drawn is None else drawn.y.shape[1]))
        if drawn is not None:
            assert (drawn.tasks < batch.task).all()
            assert torch.equal(drawn.x.flatten(1).long() // 35, drawn.tasks)  # 35 images a task
        memory.write(batch)
    assert seen == [(True, 0)] * 5 + [(False, 6)] * 5 + [(False, 8)] * 5


@pytest.mark.parametrize("spared", [-1, None])
def test_the_host_counts_once_a_task_or_where_it_is_drawn_from_too_until_it_is_full(
    spared: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory, asked, expected = ClassMemory(Heads.even(3, 3), 6, seeds=[0, 1]), list[list[int]](), list[list[int]]()
    real = memory._held
    monkeypatch.setattr(memory, "_held", lambda tasks: (asked.append(tasks), real(tasks))[1])
    came: defaultdict[tuple[int, int, int], int] = defaultdict(int)
    for number, batch in enumerate(stream(2, 3, 5, size=4)):
        memory.write(batch)
        begun, first = list(range(batch.task + 1)), number % 5 == 0
        full = all(came[replica, batch.task, label] > 1 for replica in range(2) for label in range(3))
        for replica, own in enumerate(batch.y.tolist()):
            for label in own:
                came[replica, batch.task, label] += 1
        if spared is None:
            expected += [begun[:-1]] if first and batch.task else []
        else:
            expected += [] if full else [begun]
        memory.draw(batch.task if spared is None else spared, 4)
    assert asked == expected
    assert len(expected) < 15  # of 15 batches


def test_draws_are_different_images_and_all_come_in_time() -> None:
    memory, times = ClassMemory(Heads.even(3, 3), 6, seeds=[0]), torch.zeros(2 * 35, dtype=torch.long)
    for batch in stream(1, 2, 5):
        memory.write(batch)
    for _ in range(600):
        drawn = memory.draw(2, 4)
        assert drawn is not None
        images = drawn.x.flatten().long()
        assert len(images.unique()) == 4
        times += torch.bincount(images, minlength=len(times))
    held = times[times > 0]
    assert len(held) == 12
    assert (held - 200).abs().max() < 60  # five standard deviations of a binomial count


def test_replicas_with_fewer_images_repeat_theirs_as_rarely_as_can_be() -> None:
    memory = ClassMemory(Heads.even(3, 2), 6, seeds=[0, 1])
    memory.write(labelled([[0, 0, 1, 1, 2, 2], [0, 0, 0, 0, 1, 1]]))
    drawn = memory.draw(1, 100)
    assert drawn is not None
    assert sorted(drawn.x[0].flatten().tolist()) == [0, 1, 2, 3, 4, 5]
    assert sorted(torch.bincount(drawn.x[1].flatten().long()).tolist()) == [0, 0, 1, 1, 2, 2]  # the first two are gone


def test_a_replica_does_not_depend_on_its_neighbours() -> None:
    def run(seeds: list[int], batches: list[Batch]) -> list[Tensor]:
        memory, found = ClassMemory(Heads.even(3, 3), 8, seeds=seeds), []
        for batch in batches:
            drawn = memory.draw(batch.task, 5)
            found += [] if drawn is None else [drawn.x[-1].clone()]
            memory.write(batch)
        return found

    both = stream(2, 3, 3)
    alone = [Batch(batch.x[1:], batch.y[1:], batch.task) for batch in both]
    assert torch.equal(torch.stack(run([5, 7], both)), torch.stack(run([7], alone)))


@pytest.mark.parametrize("spared", [-1, None])
def test_a_memory_that_was_stored_goes_on_as_the_original(spared: int | None) -> None:
    batches = stream(2, 3, 3)
    memory, other = (ClassMemory(Heads.even(3, 3), 8, seeds=[0, 1]) for _ in range(2))
    for batch in batches[:5]:
        memory.draw(batch.task if spared is None else spared, 5)
        memory.write(batch)
    tensors: dict[str, Tensor] = {}
    restore(other, json.loads(json.dumps(pack(memory, tensors))), tensors, CPU)
    assert tensors[".filled.x"].shape[1] == 16  # nothing of the task that has not begun
    for batch in batches[5:]:
        mine, yours = (each.draw(batch.task if spared is None else spared, 5) for each in (memory, other))
        assert mine is not None
        assert yours is not None
        assert torch.equal(mine.x, yours.x)
        assert torch.equal(mine.tasks, yours.tasks)
        memory.write(batch)
        other.write(batch)


@pytest.mark.parametrize("kind", ["masked", "seen"])
def test_tasks_of_different_numbers_of_classes_share_the_places_each_in_their_way(kind: HeadsKind) -> None:
    heads = Heads.of([(4, 7, 9), (9, 2)], kind)
    memory, tasks = ClassMemory(heads, 6, seeds=[0]), ([0, 1, 2] * 3, [1, 0] * 5)
    for task, places in enumerate(tasks):
        y = torch.tensor([places])
        x = torch.arange(len(places), dtype=torch.float64).view(1, -1, 1)
        memory.write(Batch(x, heads.labels(y, task), task))
    assert sorted(memory.all_of(0).x.flatten().tolist()) == [3, 4, 5, 6, 7, 8]
    second = memory.all_of(1)
    assert sorted(second.x.flatten().tolist()) == [4, 5, 6, 7, 8, 9]
    assert sorted(heads.places(second.y, 1).flatten().tolist()) == [0, 0, 0, 1, 1, 1]
