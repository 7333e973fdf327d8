"""How the results of ``gradcast bench`` are shown."""

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from gradcast.bench import method_times
from gradcast.bench.epoch_times import EpochTime
from gradcast.bench.few_labels import Speed
from gradcast.bench.head_start_times import SEEDS, STEPS, HeadStartTime
from gradcast.bench.measure import Bench, Comparison, Growth
from gradcast.bench.method_times import MethodTime
from gradcast.bench.step_times import MEMORIES, TASKS
from gradcast.bench.streams import Throughput


def print_bench(console: Console, found: Bench) -> None:
    """A table of each part that was measured, and a few sentences."""
    machine = f"{found.machine['device']}, {found.machine['threads']} threads"
    if found.comparisons:
        console.print(_comparisons(found.comparisons, machine))
        console.print(
            "The classical formulation as released and with numpy's threads pinned, and ours; violating: ours where it "
            "projects, share: how many steps do; faster: how many times, than as released (than pinned). "
            f"The same weights to {found.agreement:.1e} in float64.\n"
        )
    else:
        console.print(machine)
    if found.growth:
        console.print(_growth(found.growth))
    if found.streams:
        console.print(_streams(found.streams, "MNIST" if found.real_data else "random images in MNIST's size"))
    if found.epochs:
        console.print(_epochs(found.epochs))
    if found.few_labels:
        console.print(_few_labels(found.few_labels))
    if found.head_starts:
        _print_head_starts(console, found.head_starts)
    if found.methods:
        console.print(_methods(found.methods))
        console.print(
            f"In the last of {method_times.TASKS} tasks, batches of {method_times.BATCH}, one seed; against ER: times "
            "as long as a step of experience replay, measured in turns. What a learner does between tasks is left out."
        )
    _print_costs(console, found)


def _print_costs(console: Console, found: Bench) -> None:
    """What is told in sentences: Ray, checkpoints, memory."""
    if found.ray is not None:
        console.print(
            f"Ray, one thread a cell: two cells at once take {found.ray.two:.2f} of the time of one after the other. "
            f"{found.ray.cells} cells of {found.ray.cell_seconds:.1f} s on {found.ray.workers} CPUs take "
            f"{100 * found.ray.overhead:.0f} % more than {found.ray.workers} such processes without Ray would."
        )
    for cost in found.checkpoints:
        console.print(
            f"A checkpoint of the slim ResNet-18 with GEM after task {cost.task} ({cost.megabytes:.0f} MB): training "
            f"waits {_digits(cost.blocked_ms)} ms, writing takes {_digits(cost.written_ms)} ms beside it; "
            f"{100 * cost.share:.2f} % of the task's time."
        )
    for name, megabytes in found.peak_mb.items():
        console.print(f"Peak GPU memory of {name} at task {TASKS}: {megabytes} MB")


def _print_head_starts(console: Console, found: Sequence[HeadStartTime]) -> None:
    """Their table, and what a preset's head starts would take where several seeds train at once."""
    console.print(_head_starts(found))
    console.print("faster: how many times, seed for seed, than the plain formulation.")
    for own in found:
        if own.seeds == SEEDS:
            console.print(
                f"{SEEDS} head starts of {STEPS:,} steps in {own.dtype} take about {_minutes(own.hours())}; the plain "
                f"formulation, one after another, about {_minutes(own.plain_hours())}."
            )


def _comparisons(found: Sequence[Comparison], machine: str) -> Table:
    table = _table(
        f"ms a step, {MEMORIES} memories a task ({machine})",
        ("network", "task", "released", "pinned", "ours", "violating", "share", "faster"),
    )
    for entry in found:
        violating = "" if entry.ours.violating is None else _digits(entry.ours.violating)
        table.add_row(
            _name(entry.network, entry.dtype), str(entry.task), _digits(entry.classical.milliseconds),
            _digits(entry.pinned.milliseconds), _digits(entry.ours.milliseconds), violating,
            f"{100 * entry.ours.violated:.0f} %", f"{_digits(entry.ratio)} ({_digits(entry.pinned_ratio)})",
        )  # fmt: skip
    return table


def _growth(found: Sequence[Growth]) -> Table:
    table = _table("ms of our step as one size grows", ("network", "varied", "size: ms"))
    for key in dict.fromkeys((entry.network, entry.dtype, entry.varied) for entry in found):
        line = [entry for entry in found if (entry.network, entry.dtype, entry.varied) == key]
        sizes = "  ".join(f"{entry.size}: {_digits(entry.ours.milliseconds)}" for entry in line)
        table.add_row(_name(key[0], key[1]), key[2], sizes)
    return table


def _streams(found: Sequence[Throughput], what: str) -> Table:
    table = _table(
        f"MNIST-R, GEM + predicted gradients ({what})",
        ("streams at once", "seconds", "streams a minute", "GPU memory (MB)"),
    )
    for run in found:
        about = "" if run.complete else "about "
        table.add_row(str(run.replicas), f"{about}{run.seconds:.1f}", f"{about}{run.per_minute:.1f}", _mb(run.peak_mb))
    return table


def _epochs(found: Sequence[EpochTime]) -> Table:
    table = _table(
        "ACL + predicted gradients, an epoch of a task of CIFAR-100 (random images)",
        ("arithmetic", "seeds at once", "seconds", "seconds a seed", "GPU memory (MB)"),
    )
    for own in found:
        about = "" if own.complete else "about "
        seconds = (f"{about}{own.seconds:.2f}", f"{about}{own.seconds_a_seed:.2f}")
        table.add_row(own.dtype, str(own.seeds), *seconds, _mb(own.peak_mb))
    return table


def _few_labels(speeds: Sequence[Speed]) -> Table:
    batch, size = speeds[0].batch, speeds[0].size
    table = _table(
        f"Meta-gradient, Conv-Large, {batch} + {batch} images of {size}x{size} a step and seed",
        ("arithmetic", "seeds", "ms a step", "images a second", "GPU memory (MB)"),
    )
    for own in speeds:
        images = f"{own.images_a_second:,.0f}" if own.images_a_second >= 10 else f"{own.images_a_second:.1f}"
        table.add_row(own.dtype, str(own.replicas), _digits(own.milliseconds), images, _mb(own.peak_mb))
    return table


def _head_starts(found: Sequence[HeadStartTime]) -> Table:
    table = _table(
        f"Head start, slim ResNet-18, {found[0].batch} images in two views a step and seed",
        ("arithmetic", "formulation", "seeds", "ms a step", "images a second", "faster"),
    )
    for own in found:
        if own.seeds == 1:
            plain = _digits(own.plain_milliseconds), f"{own.plain_images_a_second:,.0f}"
            table.add_row(own.dtype, "plain", "1", *plain, "")
        rate = _digits(own.milliseconds), f"{own.images_a_second:,.0f}", _digits(own.ratio)
        table.add_row(own.dtype, "ours", str(own.seeds), *rate)
    return table


def _methods(found: Sequence[MethodTime]) -> Table:
    table = _table("A step of every learner, equally many images in memory", ("learner", "ms a step", "against ER"))
    for own in found:
        table.add_row(own.learner, _digits(own.milliseconds), _digits(own.ratio))
    return table


def _minutes(hours: float) -> str:
    return f"{60 * hours:.0f} minutes" if hours < 2 else f"{hours:.1f} hours"


def _mb(peak: int | None) -> str:
    return "" if peak is None else str(peak)


def _table(title: str, headings: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in headings:
        words = heading in ("network", "varied", "size: ms", "arithmetic", "formulation", "learner")
        table.add_column(heading, justify="left" if words else "right", no_wrap=True)
    return table


def _name(network: str, dtype: str) -> str:
    return f"{network.removeprefix('slim-')} {dtype}"


def _digits(number: float) -> str:
    digits = 0 if number >= 100 else 1 if number >= 10 else 2
    return f"{number:.{digits}f}"
