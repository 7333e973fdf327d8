"""Devices: where tensors live, in which arithmetic, with how many threads."""

import ctypes
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from threadpoolctl import threadpool_limits
from torch import Tensor

from gradcast.cluster.ranks import Ranks
from gradcast.errors import GradcastError, message_of

# float64 and float32: weights and every product. tf32: float32, but products of a GPU round their factors to TF32.
# bf16: weights and sums in float32, images to logits and back in bfloat16, other products as in tf32 (GPU).
Arithmetic = Literal["float32", "float64", "tf32", "bf16"]
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # <malloc.h>
BUSY = 0.5  # share of the cores: beyond it, threads of ours wait for each other at every operation


def choose_device(name: str) -> torch.device:
    """``auto`` takes a GPU where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:  # torch would list two dozen
        raise GradcastError(f"there is no device {name!r}; try --device cpu, cuda or cuda:1") from None
    try:
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError) as error:
        raise GradcastError(f"device {name!r} cannot be used ({message_of(error)}); try --device cpu") from None
    return device


@dataclass(frozen=True)
class Place:
    """Where a run happens: device, type of the weights, type between images and logits."""

    device: torch.device
    dtype: torch.dtype
    inner: torch.dtype | None = None  # the same, if not said otherwise
    ranks: Ranks | None = None  # processes that divide every pass among them


def choose_place(device: str, arithmetic: Arithmetic, ranks: Ranks | None = None) -> Place:
    """Device and arithmetic by name; sets how a GPU multiplies float32. Every one of several ``ranks`` has its GPU."""
    found = choose_device(device)
    if ranks is not None and found.type == "cuda":
        found = _own_gpu(found, ranks)
    if arithmetic in ("tf32", "bf16") and found.type != "cuda":
        raise GradcastError(f"dtype = {arithmetic!r} needs a GPU, this run is on {found.type}; set dtype=float32")
    rounds = arithmetic in ("tf32", "bf16")
    torch.backends.cudnn.allow_tf32 = rounds
    torch.set_float32_matmul_precision("high" if rounds else "highest")
    dtype = torch.float64 if arithmetic == "float64" else torch.float32
    return Place(found, dtype, torch.bfloat16 if arithmetic == "bf16" else dtype, ranks)


def _own_gpu(device: torch.device, ranks: Ranks) -> torch.device:
    """The GPU of this rank's number on its machine."""
    if device.index is not None:
        raise GradcastError(f"torchrun gives every process a GPU of its own; use --device cuda, not {device}")
    count = torch.cuda.device_count()
    if ranks.local >= count:
        raise GradcastError(
            f"torchrun started more processes than this machine has GPUs ({count}); set --nproc-per-node {count}, or "
            "use --device cpu"
        )
    torch.cuda.set_device(ranks.local)
    return torch.device("cuda", ranks.local)


def free_memory(device: torch.device) -> int:
    """Bytes that may still be taken, on the GPU or on the host."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    table = Path("/proc/meminfo")  # counts what caches would give back; other systems tell only what there is
    lines = table.read_text().splitlines() if table.is_file() else []
    available = [int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")]
    return available[0] if available else os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def for_each_rank(free: int, place: Place) -> int:
    """What every rank has of the memory that is free to this one; all hear the same number. Hosts are shared."""
    if place.ranks is None:
        return free
    return -place.ranks.largest(-free // (place.ranks.size if place.device.type == "cpu" else 1))


def to_device(numbers: np.ndarray | Tensor, device: torch.device) -> Tensor:
    """A few numbers for the device, without waiting for what it is doing."""
    tensor = torch.from_numpy(numbers) if isinstance(numbers, np.ndarray) else numbers
    if device.type != "cuda":
        return tensor
    return tensor.contiguous().pin_memory().to(device, non_blocking=True)  # rows may be one and the same, repeated


def own_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def busy() -> bool:
    """Whether other work keeps more than half of the machine's cores busy, by the load of the last minute."""
    try:
        return os.getloadavg()[0] > BUSY * (os.cpu_count() or 1)
    except OSError:  # not every system tells
        return False


def use_threads(count: int | None) -> int:
    """Give torch these threads (default: all cores it may use) and numpy's BLAS one: the pools would fight."""
    chosen = count or own_cores()
    torch.set_num_threads(chosen)
    threadpool_limits(1, user_api="blas")
    return chosen


def be_deterministic(threads: int | None) -> None:
    """The same bits every time on the same kind of machine, however many cores it has.

    One thread, since how a sum is split over threads shows in its last bits; on a GPU, algorithms without atomic sums.
    """
    if threads not in (None, 1):
        raise GradcastError(f"--deterministic computes with one thread, not {threads}; leave --threads out")
    use_threads(1)
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when the GPU is first used
    torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic = False, True
    torch.use_deterministic_algorithms(True)


def keep_freed_memory() -> None:
    """Let the C library keep what tensors give back: it would return it to the system and fault it in anew each step.

    Blocks beyond its largest threshold (32 MB) still come and go. Elsewhere than with glibc nothing happens.
    """
    if sys.platform == "linux" and (adjust := getattr(ctypes.CDLL(None), "mallopt", None)) is not None:
        adjust(M_MMAP_THRESHOLD, 32 << 20)
        adjust(M_TRIM_THRESHOLD, 1 << 30)
