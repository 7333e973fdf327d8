from collections.abc import Callable

import numpy as np
import pytest
import torch

from gradcast.errors import GradcastError
from gradcast.runs.memory_errors import enough_memory, lacks_memory


@pytest.mark.parametrize(
    "allocate",
    [
        lambda: torch.empty(10**14),
        lambda: torch.empty(2**62, 8),
        lambda: torch.nn.Linear(10**10, 10**10),
        lambda: torch.nn.Linear(10**30, 10),
        lambda: np.empty(10**15),
        lambda: np.empty(10**30),
        lambda: np.empty((2**40, 2**40)),
        lambda: [0] * 10**18,
        lambda: [0] * 10**30,
    ],
)
def test_failed_allocations_are_explained(allocate: Callable[[], object]) -> None:
    with pytest.raises(GradcastError, match=r"not enough memory for 3 seeds .*train fewer seeds"), enough_memory(3):
        allocate()


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB."),
        RuntimeError("[enforce fail] DefaultCPUAllocator: not enough memory: you tried to allocate 8 bytes"),
        RuntimeError("std::bad_alloc"),
        MemoryError(),
    ],
)
def test_other_machines_word_it_in_other_ways(error: Exception) -> None:
    assert lacks_memory(error)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("value cannot be converted to type int8_t without overflow"),
        RuntimeError("overflow"),
        RuntimeError("the batch is too large for this kernel"),
        RuntimeError("expected a tensor that was allocated on the CPU"),
        OverflowError("cannot convert float infinity to integer"),
        OverflowError("math range error"),
        ValueError("labels are wrong"),
        KeyError("memory"),
    ],
)
def test_other_errors_pass_through_unchanged(error: Exception) -> None:
    with pytest.raises(type(error)) as found, enough_memory(3):
        raise error
    assert found.value is error
