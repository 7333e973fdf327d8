"""Lack of memory in a sentence, and nothing else: other errors pass through as they are."""

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import torch

from gradcast.errors import GradcastError, message_of

# How a failed allocation reads: torch on the host, CUDA, the C++ library, numpy.
FAILED = r"can't allocate memory|cannot allocate memory|unable to allocate|not enough memory|out of memory|bad_alloc"
# How a size beyond the address space reads: torch, numpy, Python.
BEYOND = (
    r"storage size calculation overflowed|argument 'size' failed to unpack .*overflow|array is too big"
    r"|maximum allowed (dimension|size)|index-sized integer|int too large to convert to c "
)
WORDS = re.compile(f"{FAILED}|{BEYOND}", re.IGNORECASE)


def enough_memory(seeds: int) -> AbstractContextManager[None]:
    """Sizes of a run beyond what the machine has, in a sentence."""
    remedy = "train fewer seeds, or lower stream.size, learner.memory, model.hidden or policy.batch"
    return memory_for(f"{seeds} seeds of this size", remedy)


@contextmanager
def memory_for(what: str, remedy: str) -> Iterator[None]:
    """The same for anything else that takes memory."""
    try:
        yield
    except (MemoryError, OverflowError, RuntimeError, TypeError, ValueError) as error:
        if not lacks_memory(error):
            raise
        raise GradcastError(f"there is not enough memory for {what} ({message_of(error)}); {remedy}") from None


def lacks_memory(error: Exception) -> bool:
    """Whether an allocation failed, or was asked for beyond the address space."""
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or bool(WORDS.search(message_of(error)))
