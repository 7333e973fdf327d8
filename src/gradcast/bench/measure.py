"""Everything that ``gradcast bench`` measures."""

import platform
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from gradcast import devices
from gradcast.bench import epoch_times as epochs
from gradcast.bench import few_labels
from gradcast.bench import head_start_times as head_starts
from gradcast.bench import method_times as methods
from gradcast.bench.bench_result import Bench, Comparison, Growth
from gradcast.bench.ray_times import ray_times
from gradcast.bench.saving import saving
from gradcast.bench.step_times import NETWORKS, TASKS, AsReleased, Scene, difference, time_steps
from gradcast.bench.streams import Streams
from gradcast.bench.whole_stream import whole_stream
from gradcast.devices import Arithmetic, Place, choose_place
from gradcast.runs import environment

AT = (2, 10, 20)  # tasks


@dataclass(frozen=True)
class Request:
    """Where, and how much of it."""

    device: str
    data: Path
    steps: int
    replicas: Sequence[int]
    say: Callable[[str], None]

    @property
    def gpu(self) -> bool:
        return devices.choose_device(self.device).type == "cuda"

    def place(self, dtype: Arithmetic = "float32") -> Place:
        """The device in this arithmetic."""
        return choose_place(self.device, dtype)

    def networks(self) -> list[tuple[str, Arithmetic]]:
        """On a GPU the slim ResNet-18 too, in every arithmetic."""
        on_gpu: tuple[Arithmetic, ...] = ("tf32", "bf16", "float32") if self.gpu else ()
        return [("mlp", "float32"), *(("slim-resnet18", dtype) for dtype in on_gpu)]


def bench(request: Request, parts: Collection[str]) -> Bench:
    """The parts named, in the order of PARTS."""
    found = Bench(environment.describe(request.place().device) | {"processor": _processor()}, request.steps)
    for name, measure in PARTS.items():
        if name in parts:
            measure(found, request)
    return found


def _steps(found: Bench, request: Request) -> None:
    """Both formulations in turns, our memory, and that they agree."""
    for network, dtype in request.networks():
        place = request.place(dtype)
        for task in AT:
            request.say(f"{network} in {dtype}, task {task}: classical and ours, {request.steps} steps each")
            found.comparisons.append(_compare(network, dtype, task, place, request.steps))
        if request.gpu:
            found.peak_mb[f"{network} {dtype}"] = _peak(network, place)
    request.say("both formulations in float64, to see that they do the same")
    found.agreement = _agreement(request.place("float64"))


def _growth(found: Bench, request: Request) -> None:
    for network, dtype in request.networks():
        if dtype != "float32" or network == "mlp":
            found.growth += _grow(network, dtype, request)


def _streams(found: Bench, request: Request) -> None:
    streams = Streams(request.data, request.place())
    found.real_data = streams.real
    for count in request.replicas:
        request.say(f"MNIST-R with GEM + predicted gradients, {_counted(count, 'stream')} at once")
        found.streams.append(streams.measure(count, complete=request.gpu))


def _checkpoints(found: Bench, request: Request) -> None:
    request.say("checkpoints of GEM with the slim ResNet-18")
    place = request.place("bf16" if request.gpu else "float32")
    for task in (2, TASKS) if request.gpu else (2,):
        scene = Scene(NETWORKS["slim-resnet18"], task, place)
        found.checkpoints.append(saving(scene, place, time_steps(place, 1, scene.ours()[0])[0].milliseconds))


def _epochs(found: Bench, request: Request) -> None:
    for dtype, count in epochs.kinds(request.place().device):
        request.say(f"an epoch of ACL with predicted gradients in {dtype}, {_counted(count, 'seed')} at once")
        found.epochs.append(epochs.epoch_time(request.place(dtype), dtype, count, complete=request.gpu))


def _few_labels(found: Bench, request: Request) -> None:
    for dtype, count in few_labels.kinds(request.place().device):
        request.say(f"meta-gradient with Conv-Large in {dtype}, {_counted(count, 'seed')} at once")
        found.few_labels.append(few_labels.speed(request.device, dtype, count))


def _head_starts(found: Bench, request: Request) -> None:
    for dtype in head_starts.ARITHMETIC[request.place().device.type]:
        request.say(f"a head start of the slim ResNet-18 in {dtype}: plain and ours")
        found.head_starts += head_starts.head_start_times(request.place(dtype), dtype, request.steps)


def _methods(found: Bench, request: Request) -> None:
    dtype: Arithmetic = "bf16" if request.gpu else "float32"
    for name in methods.names():
        request.say(f"a step of {name} beside one of experience replay, slim ResNet-18 in {dtype}")
        found.methods.append(methods.method_time(request.place(dtype), dtype, name, request.steps))


def _whole_stream(found: Bench, request: Request) -> None:
    found.whole_stream = whole_stream(request.data, request.place(), request.say)
    found.real_data = (request.data / "mnist").is_dir()


def _ray(found: Bench, request: Request) -> None:
    found.ray = ray_times(request.say)


PARTS: dict[str, Callable[[Bench, Request], None]] = {
    "steps": _steps,
    "growth": _growth,
    "streams": _streams,
    "checkpoints": _checkpoints,
    "epochs": _epochs,
    "few-labels": _few_labels,
    "head-start": _head_starts,
    "methods": _methods,
    "whole-stream": _whole_stream,
    "ray": _ray,
}


def _processor() -> str:
    """The CPU's name, as Linux knows it, and its widest instructions."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{(names or [platform.machine()])[0]} with {torch.backends.cpu.get_cpu_capability()}"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s' if count > 1 else ''}"


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


def _grow(network: str, dtype: Arithmetic, request: Request) -> list[Growth]:
    place, steps = request.place(dtype), request.steps
    sizes: list[tuple[str, int, Scene]] = []
    for task in (2, 5, 10, 20):
        sizes.append(("task", task, Scene(NETWORKS[network], task, place)))
    for memories in (64, 128, 256, 512):
        sizes.append(("memories", memories, Scene(NETWORKS[network], TASKS, place, memories=memories)))
    for count in request.replicas if network == "mlp" else [count for count in request.replicas if count <= 4]:
        sizes.append(("replicas", count, Scene(NETWORKS[network], TASKS, place, replicas=count)))
    found: list[Growth] = []
    for varied, size, scene in sizes:
        request.say(f"{network} in {dtype}: ours with {varied} = {size}")
        count = max(2, steps // scene.replicas) if place.device.type == "cpu" else steps
        found.append(Growth(network, dtype, varied, size, time_steps(place, count, scene.ours()[0])[0]))
    return found


def _peak(network: str, place: Place) -> int:
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    time_steps(place, 1, Scene(NETWORKS[network], TASKS, place).ours()[0])
    return torch.cuda.max_memory_allocated() >> 20
