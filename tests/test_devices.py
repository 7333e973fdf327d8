import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from gradcast import devices
from gradcast.cluster.ranks import Ranks
from gradcast.devices import (
    Arithmetic,
    Place,
    choose_device,
    choose_place,
    for_each_rank,
    free_memory,
    to_device,
    use_threads,
)
from gradcast.errors import GradcastError


def test_auto_takes_what_is_there() -> None:
    assert choose_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
    assert choose_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cuda:99", r"device 'cuda:99' cannot be used .*--device cpu"),
        ("warp", r"there is no device 'warp'; try --device cpu, cuda or cuda:1"),
    ],
)
def test_unusable_devices_are_explained(name: str, message: str) -> None:
    with pytest.raises(GradcastError, match=message):
        choose_device(name)


def test_threads_are_set_on_purpose() -> None:
    before = torch.get_num_threads()
    for count in (2, 1):
        assert use_threads(count) == torch.get_num_threads() == count
    assert use_threads(None) >= 1
    torch.set_num_threads(before)


@pytest.mark.parametrize(("arithmetic", "dtype"), [("float32", torch.float32), ("float64", torch.float64)])
def test_a_place_is_device_and_arithmetic(arithmetic: Arithmetic, dtype: torch.dtype) -> None:
    place = choose_place("cpu", arithmetic)
    assert (place.device.type, place.dtype, place.inner) == ("cpu", dtype, dtype)
    assert not torch.backends.cudnn.allow_tf32  # float32 means float32, on a GPU too
    assert torch.get_float32_matmul_precision() == "highest"


@pytest.mark.parametrize("arithmetic", ["tf32", "bf16"])
def test_arithmetic_of_a_gpu_needs_one(arithmetic: Arithmetic) -> None:
    with pytest.raises(GradcastError, match=f"dtype = '{arithmetic}' needs a GPU.*set dtype=float32"):
        choose_place("cpu", arithmetic)


def test_numbers_are_sent_as_they_are() -> None:
    for numbers in (np.arange(3), torch.arange(3)):
        assert to_device(numbers, torch.device("cpu")).tolist() == [0, 1, 2]


def test_free_memory_is_a_plausible_number() -> None:
    assert 1 << 26 < free_memory(torch.device("cpu")) < 1 << 50


FAULTS = """
import resource, sys, torch
from gradcast.devices import keep_freed_memory
if sys.argv[1] == "keep":
    keep_freed_memory()
def turn():  # activations of a pass: many blocks at once, then none
    blocks = [torch.ones(1 << 22) for _ in range(8)]
turn()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    turn()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator is adjusted, others are left as they are")
def test_kept_memory_is_not_faulted_in_again() -> None:
    def faults(how: str) -> int:
        done = subprocess.run([sys.executable, "-c", FAULTS, how], capture_output=True, check=True, text=True)
        return int(done.stdout)

    # Left alone, the allocator sometimes learns by itself: the usual case of two counts.
    assert min(faults("keep") for _ in range(2)) < max(faults("leave") for _ in range(2)) / 4


class Two(Ranks):
    """The other one has 1,000 bytes."""

    def largest(self, number: int) -> int:
        return max(number, -1000)


def test_ranks_take_the_memory_that_every_one_of_them_has() -> None:
    place = Place(torch.device("cpu"), torch.float32)
    assert for_each_rank(900, place) == 900
    shared = Place(torch.device("cpu"), torch.float32, ranks=Two(0, 2, 0, Path()))
    assert for_each_rank(9000, shared) == 1000
    assert for_each_rank(900, shared) == 450


@pytest.mark.parametrize(
    ("name", "local", "found"),
    [
        ("cuda:1", 0, "use --device cuda, not cuda:1"),
        ("cuda", 2, r"more processes than this machine has GPUs \(2\)"),
        ("cuda", 1, "cuda:1"),
    ],
)
def test_every_rank_has_a_gpu_of_its_own(monkeypatch: pytest.MonkeyPatch, name: str, local: int, found: str) -> None:
    monkeypatch.setattr(devices, "choose_device", torch.device)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", lambda index: None)
    ranks = Ranks(local, 4, local, Path())
    if found == "cuda:1":
        assert str(choose_place(name, "float32", ranks).device) == found
    else:
        with pytest.raises(GradcastError, match=found):
            choose_place(name, "float32", ranks)
