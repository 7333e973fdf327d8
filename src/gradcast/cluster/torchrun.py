"""Ranks that torchrun started: they meet, hear of each other's failures, and part.

A rank that waits for another in a collective cannot be told anything. So every rank has a thread that looks for a
sentence in the store through which the ranks met, and ends the process where there is one.
"""

import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import Store
from torch.distributed.rendezvous import rendezvous

from gradcast.cluster.ranks import LostRankError, Ranks
from gradcast.errors import BAD_INPUT, GradcastError, Stopped, message_of

VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
PATIENCE = timedelta(hours=12)  # one rank may have to decode a dataset; those that are gone are noticed at once
LOOKED_EVERY = 0.2  # seconds between two looks for a failure
GRACE = 2.0  # seconds in which the reason of a failure, or the end of the others, becomes known
TELLING = 10.0  # seconds that the first rank has for a failed one's sentence
FAILED, TOLD = "gradcast/failed", "gradcast/told"  # keys of the store
LOST = "the first process of this run, or torchrun, ended"


def ranks_started() -> int:
    """How many processes torchrun has started for this command; 1 without it."""
    return int(os.environ["WORLD_SIZE"]) if all(name in os.environ for name in VARIABLES) else 1


def silence_others() -> None:
    """Only the first rank prints."""
    if ranks_started() > 1 and os.environ["RANK"] != "0":
        sys.stdout = sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 -- as long as the process lives


@contextmanager
def joined(complain: Callable[[str], None]) -> Iterator[Ranks | None]:
    """All ranks, where there are several; what fails on one of them ends all, with a sentence from the first.

    Collectives are gloo's on hosts and nccl's on GPUs.
    """
    if ranks_started() == 1:
        yield None
        return
    store, number, size = next(rendezvous("env://", timeout=PATIENCE))
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    dist.init_process_group(backend, store=store, rank=number, world_size=size, timeout=PATIENCE)
    scratch = Path(tempfile.mkdtemp(prefix="gradcast-"))
    ranks = Ranks(number, size, int(os.environ["LOCAL_RANK"]), scratch)
    watch = FailureWatch(store, ranks, complain)
    try:
        yield ranks
    except Stopped:
        watch.part()
        raise
    except BaseException as error:
        watch.fail(error)
        raise
    else:
        watch.part()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


class FailureWatch:
    """Ends this process where another one failed, and tells the others where this one does."""

    def __init__(self, store: Store, ranks: Ranks, complain: Callable[[str], None]) -> None:
        self.store, self.ranks, self.complain = store, ranks, complain
        self.over = threading.Event()
        self.ending = threading.Lock()  # whoever has it ends the process, and nobody else says why
        threading.Thread(target=self._watch, daemon=True).start()

    def part(self) -> None:
        """Nobody leaves before all are done: the first rank may keep the store."""
        with suppress(LostRankError):
            self.ranks.largest(0)
        self.over.set()
        dist.destroy_process_group()

    def fail(self, error: BaseException) -> None:
        """Hand the reason on; on the first rank another one's, where that is why this one failed."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # torchrun ends all when one has ended: it must not be cut short
        self.ending.acquire()
        told = ""
        with suppress(RuntimeError):
            if isinstance(error, LostRankError):
                self._wait_for(FAILED, GRACE)
            told = self.store.compare_set(FAILED, "", self._sentence(error)).decode()
        if not self.ranks.first:
            with suppress(RuntimeError):
                self._wait_for(TOLD, TELLING)  # torchrun would end the first rank before it has said why
            self._end()
        with suppress(RuntimeError):
            self.store.set(TOLD, "1")
        if isinstance(error, LostRankError) and told:
            raise GradcastError(told) from None

    def _sentence(self, error: BaseException) -> str:
        if isinstance(error, GradcastError):
            return str(error)
        return f"process {self.ranks.number} failed ({type(error).__name__}: {message_of(error)})"

    def _wait_for(self, key: str, seconds: float) -> None:
        """Until somebody has said something under this key, but not for ever."""
        until = time.monotonic() + seconds
        while not self.store.check([key]) and time.monotonic() < until:
            time.sleep(LOOKED_EVERY)

    def _watch(self) -> None:
        while not self.over.wait(LOOKED_EVERY):
            try:
                if not self.store.check([FAILED]):
                    continue
                sentence = self.store.get(FAILED).decode()
            except RuntimeError:  # nobody keeps the store any more
                if self.over.wait(GRACE):
                    return
                sentence = LOST
            with self.ending:
                if self.ranks.first:
                    self.complain(sentence)
                    with suppress(RuntimeError):
                        self.store.set(TOLD, "1")
                self._end()

    def _end(self) -> None:
        """At once: the main thread may wait for somebody who is gone."""
        shutil.rmtree(self.ranks.scratch, ignore_errors=True)
        os._exit(BAD_INPUT)
