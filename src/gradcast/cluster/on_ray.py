"""Trains cells by Ray: on this machine, on its GPUs, or on a cluster. What is trained goes to the store."""

import logging
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from gradcast.cluster.cell_task import CellTask, Conditions, Files, unpack
from gradcast.cluster.relay import Progress, Relay
from gradcast.cluster.worker import Outcome, train_cell
from gradcast.errors import GradcastError, Stopped, message_of
from gradcast.runs.checkpoint.stop import Stop
from gradcast.runs.seed_store import SeedStore

SCHEME = "ray"
UNFINISHED = "unfinished"  # folder below --out: checkpoints of cells on their way
RETRIES = 5  # of a task whose worker or node is lost
PATIENCE = 5.0  # seconds for an address to answer
LOOK = 0.5  # seconds between two looks at progress
PAUSE = 0.005  # seconds between two looks for an answer
WITHOUT = "--on ray needs Ray: pip install 'gradcast[ray]'"


@runtime_checkable
class TaskDisplay(Protocol):
    """Shows the tasks of a command to a person, each by a number."""

    def task(self, label: str) -> int:
        """Show one more task; returns its number."""
        ...

    def moved(self, number: int, progress: Progress) -> None:
        """Show how far a task is."""
        ...

    def ended(self, number: int, problem: str = "") -> None:
        """A task is done, or failed."""
        ...


def address_of(on: str) -> str | None:
    """The address in ``ray://HOST:PORT``; None for ``ray``, a local one."""
    kind, _, address = on.partition("://")
    if kind != SCHEME or (not address and "://" in on):
        raise GradcastError(f"--on {on!r} is not valid; use ray, or ray://HOST:PORT of a cluster")
    return address or None


@contextmanager
def session(on: str, *, cpus: int | None = None) -> Iterator[Any]:
    """Ray, connected to a cluster or started here; afterwards disconnected."""
    address = address_of(on)
    try:
        import ray  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        raise GradcastError(WITHOUT) from None
    logging.getLogger("ray").setLevel(logging.ERROR)  # what it has to say at a start is no news to anybody
    if address is not None:
        _answers(address)
    try:
        ray.init(
            address=address,
            num_cpus=None if address else cpus,
            include_dashboard=None if address else False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            configure_logging=False,
            namespace="gradcast",
        )
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        where = f"the cluster {address}" if address else "Ray"
        raise GradcastError(f"{where} cannot be used ({message_of(error)}); see `ray status` there") from None
    try:
        yield ray
    finally:
        ray.shutdown()


def _answers(address: str) -> None:
    """A sentence where nobody listens: Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=PATIENCE):
            return
    except (OSError, ValueError) as error:
        raise GradcastError(
            f"no Ray cluster answers at {address} ({message_of(error)}); give the address that `ray start --head` "
            "printed, with the command on a machine of that cluster"
        ) from None


@dataclass
class Sent:
    """A task on its way."""

    task: CellTask
    number: int  # of the display
    reference: object


def fill_store(
    ray: Any,  # noqa: ANN401 -- the module, which may not be installed
    tasks: Sequence[CellTask],
    conditions: Conditions,
    store: SeedStore,
    unfinished: Path,
    display: TaskDisplay | None = None,
) -> dict[str, str]:
    """Train all tasks; a sentence for each that failed, by its name. The others' seeds are in the store."""
    stop, sent = Stop(), list[Sent]()
    here = ray.get_runtime_context().get_node_id()
    affinity = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(here, soft=False)
    relay = ray.remote(Relay).options(num_cpus=0, scheduling_strategy=affinity).remote(str(unfinished.resolve()))
    shared = ray.put(conditions)
    remote = ray.remote(_remote_cell)
    for task in tasks:
        options = {"num_cpus": conditions.threads, "num_gpus": task.gpus, "max_retries": RETRIES, "name": task.label}
        number = 0 if display is None else display.task(task.label)
        sent.append(Sent(task, number, remote.options(**options).remote(task, shared, relay)))
    failed: dict[str, str] = {}
    with stop.listening():
        while sent:
            ready, _ = ray.wait([each.reference for each in sent], timeout=LOOK)
            if display is not None:
                told = ray.get(relay.progress.remote())
                for each in [each for each in sent if each.task.name in told]:
                    display.moved(each.number, told[each.task.name])
            for each in [each for each in sent if each.reference in ready]:
                sent.remove(each)
                problem = _receive(ray, each, store, unfinished)
                if display is not None:
                    display.ended(each.number, problem)
                if problem:
                    failed[each.task.name] = problem
            if stop.signal is not None:
                for each in sent:
                    ray.cancel(each.reference, force=True)
                raise Stopped(
                    stop.signal, f"stopped with {len(sent)} cells unfinished; the same command goes on from there"
                )
    with suppress(OSError):
        unfinished.rmdir()
    return failed


def _receive(ray: Any, each: Sent, store: SeedStore, unfinished: Path) -> str:  # noqa: ANN401 -- as above
    """Put the result of a task into the store; a sentence where there is none."""
    try:
        outcome: Outcome = ray.get(each.reference)
    except ray.exceptions.RayTaskError as error:
        return f"a worker failed: {message_of(error.cause if error.cause is not None else error)}"
    except ray.exceptions.RayError as error:
        return f"its worker was lost {RETRIES + 1} times ({message_of(error)}); the same command goes on with it"
    if outcome.problem:
        return outcome.problem
    _take_over(outcome.files, store)
    shutil.rmtree(unfinished / each.task.name, ignore_errors=True)
    return ""


def _take_over(files: Files, store: SeedStore) -> None:
    with tempfile.TemporaryDirectory(prefix="gradcast-") as scratch:
        unpack(files, Path(scratch))
        store.merge(SeedStore(Path(scratch)))


def _remote_cell(task: CellTask, conditions: Conditions, relay: Any) -> Outcome:  # noqa: ANN401 -- a handle of Ray's
    """Train a cell in the worker process."""
    import ray

    class Reached:
        """The relay, over the network."""

        def tell(self, name: str, progress: Progress) -> None:
            relay.tell.remote(name, progress)

        def save(self, name: str, files: Files) -> None:
            _answer(ray, relay.save.remote(name, files))

        def load(self, name: str) -> Files:
            found: Files = _answer(ray, relay.load.remote(name))
            return found

    return train_cell(task, conditions, Reached())


def _answer(ray: Any, reference: object) -> Any:  # noqa: ANN401 -- as above
    """What a call gives. Ray lends the CPU of a task that blocks to another one, and then too many train at once."""
    while not ray.wait([reference], timeout=0)[0]:
        time.sleep(PAUSE)
    return ray.get(reference)
