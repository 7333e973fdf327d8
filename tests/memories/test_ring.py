import pytest
import torch

from gradcast.core import Batch
from gradcast.memories.ring import TaskMemory


def numbered(start: int, count: int, task: int) -> Batch:
    """A batch whose images are consecutive numbers, so that one sees which were kept."""
    x = torch.arange(start, start + count, dtype=torch.float32).view(1, count, 1)
    return Batch(x, torch.zeros(1, count, dtype=torch.long), task)


def test_pointer_trace_of_the_published_ring_over_two_tasks() -> None:
    """B = 10, M = 256: every 26th batch is cut to six and the pointer goes on into the next task."""
    memory = TaskMemory(tasks=2, size=256)
    pointers, fills = [], []
    for step in range(200):
        memory.write(numbered(10 * step, 10, task=step // 100))
        pointers.append(memory.pointer)
        fills.append(memory.fill(step // 100))
    assert pointers[:3] == [10, 20, 30]
    assert pointers[24:28] == [250, 0, 10, 20]
    assert pointers[51] == 0
    assert pointers[99] == 220  # 100 batches = 3 rounds of 26 and 22 more
    assert pointers[100:104] == [230, 240, 250, 0]
    assert fills[24:27] == [250, 256, 256]
    assert fills[100:104] == [10, 20, 30, 36]
    assert memory.fill(0) == memory.fill(1) == 256


def test_a_cut_batch_loses_its_tail() -> None:
    memory = TaskMemory(tasks=1, size=8)
    for step in range(3):
        memory.write(numbered(5 * step, 5, task=0))
    assert memory.x is not None
    assert memory.x[0, 0, :, 0].tolist() == [10, 11, 12, 13, 14, 5, 6, 7]


def test_only_written_rows_are_read() -> None:
    memory = TaskMemory(tasks=2, size=8)
    memory.write(numbered(0, 5, task=0))
    memory.write(numbered(5, 5, task=0))  # three fit
    memory.write(numbered(100, 3, task=1))
    (past,) = memory.past(1)
    assert past.x[0, 0, :, 0].tolist() == list(range(8))
    (other,) = memory.past(0)
    assert other.x[0, 0, :, 0].tolist() == [100, 101, 102]
    assert other.tasks.tolist() == [1]


def test_past_tasks_come_in_order_of_appearance_cut_where_fills_change() -> None:
    memory = TaskMemory(tasks=4, size=4)
    for task, count in ((2, 4), (0, 4), (3, 2)):
        memory.write(numbered(10 * task, count, task))
    memory.write(numbered(50, 2, task=1))
    runs = memory.past(1)
    assert [run.tasks.tolist() for run in runs] == [[2, 0], [3]]
    assert runs[0].x[0, :, 0, 0].tolist() == [20, 0]


def test_full_memories_in_natural_order_are_views() -> None:
    memory = TaskMemory(tasks=3, size=4)
    for task in range(3):
        memory.write(numbered(10 * task, 4, task))
    (past,) = memory.past(2)
    assert memory.x is not None
    assert past.x.data_ptr() == memory.x.data_ptr()
    assert past.y.shape == (1, 2, 4)


@pytest.mark.parametrize("size", [1, 3])
def test_memory_smaller_than_a_batch(size: int) -> None:
    memory = TaskMemory(tasks=1, size=size)
    memory.write(numbered(0, 5, task=0))
    assert memory.fill(0) == size
    assert memory.pointer == 0
