"""Everything that ``gradcast bench`` measures, and how it is shown."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from gradcast import environment
from gradcast.bench.epochs import EpochTime, epoch_time
from gradcast.bench.few_labels import Speed, kinds, speed
from gradcast.bench.saving import Cost, saving
from gradcast.bench.steps import MEMORIES, NETWORKS, TASKS, AsReleased, Scene, Timing, difference, time_steps
from gradcast.bench.streams import Streams, Throughput
from gradcast.environment import Arithmetic, Place, choose_place

AT = (2, 10, 20)  # tasks
SEEDS = (1, 5)  # of ACL, together
Say = Callable[[str], None]


@dataclass(frozen=True)
class Comparison:
    """Both formulations at one task; the classical one as scripts run it, and with numpy's threads held back."""

    network: str
    dtype: Arithmetic
    task: int
    classical: Timing
    pinned: Timing
    ours: Timing

    @property
    def ratio(self) -> float:
        """How many times faster ours is than the classical formulation."""
        return self.classical.milliseconds / self.ours.milliseconds

    @property
    def pinned_ratio(self) -> float:
        """The same where the classical one has its threads held back, as we hold ours."""
        return self.pinned.milliseconds / self.ours.milliseconds


@dataclass(frozen=True)
class Growth:
    """Our step where one size changes."""

    network: str
    dtype: Arithmetic
    varied: str
    size: int
    ours: Timing


@dataclass(frozen=True)
class Bench:
    """All results."""

    machine: dict[str, object]
    comparisons: list[Comparison]
    agreement: float  # largest relative difference of a weight between both formulations, in float64
    growth: list[Growth]
    streams: list[Throughput]
    real_data: bool
    peak_mb: dict[str, int]  # GPU memory of our step at task 20
    checkpoints: list[Cost]
    epochs: list[EpochTime]  # of ACL
    few_labels: list[Speed]

    def as_dict(self) -> dict[str, object]:
        """For JSON."""
        ratios = [{"as released": entry.ratio, "pinned": entry.pinned_ratio} for entry in self.comparisons]
        shares = [entry.share for entry in self.checkpoints]
        images = [entry.images_a_second for entry in self.few_labels]
        return asdict(self) | {"ratios": ratios, "checkpoint_shares": shares, "few_labels_images_a_second": images}


def bench(device: str, data: Path, *, steps: int, replicas: Sequence[int], say: Say) -> Bench:
    """Steps, growth, streams and few labels; on a GPU the slim ResNet-18 too, in every arithmetic."""
    gpu = environment.choose_device(device).type == "cuda"
    networks: list[tuple[str, Arithmetic]] = [("mlp", "float32")]
    networks += [("slim-resnet18", "tf32"), ("slim-resnet18", "bf16"), ("slim-resnet18", "float32")] if gpu else []
    comparisons: list[Comparison] = []
    growth: list[Growth] = []
    peak: dict[str, int] = {}
    for network, dtype in networks:
        place = choose_place(device, dtype)
        for task in AT:
            say(f"{network} in {dtype}, task {task}: classical and ours, {steps} steps each")
            comparisons.append(_compare(network, dtype, task, place, steps))
        if gpu:
            peak[f"{network} {dtype}"] = _peak(network, place)
        if dtype != "float32" or network == "mlp":
            growth += _grow(network, dtype, place, steps, replicas, say)
    say("both formulations in float64, to see that they do the same")
    agreement = _agreement(choose_place(device, "float64"))
    place = choose_place(device, "float32")
    streams = Streams(data, place)
    results: list[Throughput] = []
    for count in replicas:
        say(f"MNIST-R with GEM + predicted gradients, {count} stream{'s' if count > 1 else ''} at once")
        results.append(streams.measure(count, complete=gpu))
    say("checkpoints of GEM with the slim ResNet-18")
    costs = [_saving(choose_place(device, "bf16" if gpu else "float32"), task) for task in ((2, 20) if gpu else (2,))]
    epochs: list[EpochTime] = []
    for count in SEEDS:
        say(f"an epoch of ACL with predicted gradients, {count} seed{'s' if count > 1 else ''} at once")
        epochs.append(epoch_time(count, place, complete=gpu))
    few = []
    for dtype, count in kinds(place.device):
        say(f"meta-gradient with Conv-Large in {dtype}, {count} seed{'s' if count > 1 else ''} at once")
        few.append(speed(device, dtype, count))
    machine = environment.describe(place.device)
    return Bench(machine, comparisons, agreement, growth, results, streams.real, peak, costs, epochs, few)


def _saving(place: Place, task: int) -> Cost:
    scene = Scene(NETWORKS["slim-resnet18"], task, place)
    return saving(scene, place, time_steps(place, 1, scene.ours()[0])[0].milliseconds)


def _compare(network: str, dtype: Arithmetic, task: int, place: Place, steps: int) -> Comparison:
    scene = Scene(NETWORKS[network], task, place)
    formulations = AsReleased(scene.classical()[0]), scene.classical()[0], scene.ours()[0]
    released, pinned, ours = time_steps(place, steps, *formulations)
    return Comparison(network, dtype, task, released, pinned, ours)


def _agreement(place: Place) -> float:
    scene = Scene(NETWORKS["mlp"], TASKS, place)
    (ours, model), (classical, module) = scene.ours(), scene.classical()
    time_steps(place, 5, ours, classical)
    return difference(model, module)


def _grow(network: str, dtype: Arithmetic, place: Place, steps: int, replicas: Sequence[int], say: Say) -> list[Growth]:
    sizes: list[tuple[str, int, Scene]] = []
    for task in (2, 5, 10, 20):
        sizes.append(("task", task, Scene(NETWORKS[network], task, place)))
    for memories in (64, 128, 256, 512):
        sizes.append(("memories", memories, Scene(NETWORKS[network], TASKS, place, memories=memories)))
    for count in replicas if network == "mlp" else [count for count in replicas if count <= 4]:
        sizes.append(("replicas", count, Scene(NETWORKS[network], TASKS, place, replicas=count)))
    found: list[Growth] = []
    for varied, size, scene in sizes:
        say(f"{network} in {dtype}: ours with {varied} = {size}")
        count = max(2, steps // scene.replicas) if place.device.type == "cpu" else steps
        found.append(Growth(network, dtype, varied, size, time_steps(place, count, scene.ours()[0])[0]))
    return found


def _peak(network: str, place: Place) -> int:
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    time_steps(place, 1, Scene(NETWORKS[network], TASKS, place).ours()[0])
    return torch.cuda.max_memory_allocated() >> 20


def print_bench(console: Console, found: Bench) -> None:
    """Five tables, and a few sentences."""
    machine = f"{found.machine['device']}, {found.machine['threads']} threads"
    table = _table(
        f"ms a step, {MEMORIES} memories a task ({machine})",
        ("network", "task", "released", "pinned", "ours", "violating", "share", "faster"),
    )
    for entry in found.comparisons:
        violating = "" if entry.ours.violating is None else _ms(entry.ours.violating)
        table.add_row(
            _name(entry.network, entry.dtype), str(entry.task), _ms(entry.classical.milliseconds),
            _ms(entry.pinned.milliseconds), _ms(entry.ours.milliseconds), violating,
            f"{100 * entry.ours.violated:.0f} %", f"{entry.ratio:.1f} x ({entry.pinned_ratio:.1f} x)",
        )  # fmt: skip
    console.print(table)
    console.print(
        "The classical formulation as released and with numpy's threads pinned, and ours; violating: ours where it "
        f"projects, share: how many steps do. The same weights to {found.agreement:.1e} in float64.\n"
    )
    growth = _table("ms of our step as one size grows", ("network", "varied", "size: ms"))
    for key in dict.fromkeys((entry.network, entry.dtype, entry.varied) for entry in found.growth):
        line = [entry for entry in found.growth if (entry.network, entry.dtype, entry.varied) == key]
        sizes = "  ".join(f"{entry.size}: {_ms(entry.ours.milliseconds)}" for entry in line)
        growth.add_row(_name(key[0], key[1]), key[2], sizes)
    console.print(growth)
    what = "MNIST" if found.real_data else "random images in MNIST's size"
    streams = _table(
        f"MNIST-R, GEM + predicted gradients ({what})",
        ("streams at once", "seconds", "streams a minute", "GPU memory (MB)"),
    )
    for run in found.streams:
        about = "" if run.complete else "about "
        peak = "" if run.peak_mb is None else str(run.peak_mb)
        streams.add_row(str(run.replicas), f"{about}{run.seconds:.1f}", f"{about}{run.per_minute:.1f}", peak)
    console.print(streams)
    console.print(_epochs(found.epochs))
    console.print(_few_labels(found.few_labels))
    for cost in found.checkpoints:
        console.print(
            f"A checkpoint of the slim ResNet-18 with GEM after task {cost.task} ({cost.megabytes:.0f} MB): training "
            f"waits {_ms(cost.blocked_ms)} ms, writing takes {_ms(cost.written_ms)} ms beside it; "
            f"{100 * cost.share:.2f} % of the task's time."
        )
    for name, megabytes in found.peak_mb.items():
        console.print(f"Peak GPU memory of {name} at task {TASKS}: {megabytes} MB")


def _epochs(found: Sequence[EpochTime]) -> Table:
    table = _table(
        "ACL + predicted gradients, an epoch of a task of CIFAR-100 (random images)",
        ("seeds at once", "seconds", "seconds a seed", "GPU memory (MB)"),
    )
    for own in found:
        about = "" if own.complete else "about "
        peak = "" if own.peak_mb is None else str(own.peak_mb)
        table.add_row(str(own.seeds), f"{about}{own.seconds:.1f}", f"{about}{own.seconds_a_seed:.1f}", peak)
    return table


def _few_labels(speeds: Sequence[Speed]) -> Table:
    batch, size = speeds[0].batch, speeds[0].size
    table = _table(
        f"Meta-gradient, Conv-Large, {batch} + {batch} images of {size}x{size} a step and seed",
        ("arithmetic", "seeds", "ms a step", "images a second", "GPU memory (MB)"),
    )
    for own in speeds:
        peak = "" if own.peak_mb is None else str(own.peak_mb)
        images = f"{own.images_a_second:,.0f}" if own.images_a_second >= 10 else f"{own.images_a_second:.1f}"
        table.add_row(own.dtype, str(own.replicas), _ms(own.milliseconds), images, peak)
    return table


def _table(title: str, headings: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in headings:
        words = heading in ("network", "varied", "size: ms", "arithmetic")
        table.add_column(heading, justify="left" if words else "right", no_wrap=True)
    return table


def _name(network: str, dtype: str) -> str:
    return f"{network.removeprefix('slim-')} {dtype}"


def _ms(milliseconds: float) -> str:
    return f"{milliseconds:.1f}" if milliseconds >= 10 else f"{milliseconds:.2f}"
