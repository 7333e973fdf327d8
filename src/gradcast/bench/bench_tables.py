"""The results of ``gradcast bench`` as tables: titles, headings, cells and remarks, for a terminal or a page."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gradcast.bench import method_times
from gradcast.bench.bench_result import Bench
from gradcast.bench.head_start_times import SEEDS, STEPS
from gradcast.bench.step_times import MEMORIES, TASKS


@dataclass(frozen=True)
class Part:
    """One part of the results; without rows the remarks alone."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    remarks: Sequence[str] = ()

    def filled(self) -> "Part":
        """Without the columns that have no entry."""
        kept = [column for column in range(len(self.headings)) if any(row[column] for row in self.rows)]
        rows = [[row[column] for column in kept] for row in self.rows]
        return Part(self.title, [self.headings[column] for column in kept], rows, self.remarks)


def parts(found: Bench) -> dict[str, Part]:
    """Every part that was measured, by its name on the command line."""
    makers: dict[str, tuple[object, Callable[[Bench], Part]]] = {
        "steps": (found.comparisons, _steps),
        "growth": (found.growth, _growth),
        "streams": (found.streams, _streams),
        "checkpoints": (found.checkpoints, _checkpoints),
        "epochs": (found.epochs, _epochs),
        "few-labels": (found.few_labels, _few_labels),
        "head-start": (found.head_starts, _head_starts),
        "methods": (found.methods, _methods),
        "whole-stream": (found.whole_stream, _whole_stream),
        "ray": (found.ray, _ray),
    }
    return {name: make(found).filled() for name, (results, make) in makers.items() if results}


def machine_in_words(found: Bench) -> str:
    """Device, processor, threads, torch and a note; what was not recorded is left out."""
    facts = found.machine
    versions = facts.get("versions")
    torch = versions.get("torch") if isinstance(versions, dict) else None
    words = [facts.get("device"), facts.get("processor")]
    words += [f"{facts['threads']} thread{'s' if facts['threads'] != 1 else ''}"] if "threads" in facts else []
    words += [f"torch {torch}"] if torch else []
    words += [f"{found.steps} steps of each kind"] if found.steps else []
    return ", ".join(str(word) for word in [*words, facts.get("note")] if word)


def _steps(found: Bench) -> Part:
    rows = []
    for entry in found.comparisons:
        pinned, than_pinned, ours = entry.pinned, entry.pinned_ratio, entry.ours
        rows.append([
            _name(entry.network, entry.dtype), str(entry.task), _digits(entry.classical.milliseconds),
            "" if pinned is None else _digits(pinned.milliseconds), _digits(ours.milliseconds),
            "" if ours.violating is None else _digits(ours.violating),
            "" if ours.violated is None else f"{100 * ours.violated:.0f} %",
            _times(entry.ratio) + ("" if than_pinned is None else f" ({_times(than_pinned)})"),
        ])  # fmt: skip
    remarks = [
        "Released: the classical formulation as scripts run it. Violating: our step where it projects. "
        "Faster: how many times ours is faster."
    ]
    if any(entry.pinned for entry in found.comparisons):
        remarks.append("Pinned, and in brackets: with numpy's threads pinned. Share: how many steps project.")
    if found.agreement is not None:
        remarks.append(f"Both formulations end at the same weights to {found.agreement:.0e} in float64.")
    if found.peak_mb:
        sizes = [f"{_name(*name.split())} {megabytes / 1000:.1f} GB" for name, megabytes in found.peak_mb.items()]
        remarks.append(f"Peak GPU memory of our step at task {TASKS}: {', '.join(sizes)}.")
    headings = ("network", "task", "released", "pinned", "ours", "violating", "share", "faster")
    return Part(f"ms a step, {MEMORIES} memories a task", headings, rows, remarks)


def _growth(found: Bench) -> Part:
    lines: dict[tuple[str, str], list[str]] = {}
    for entry in found.growth:
        size = f"{entry.size}: {_digits(entry.ours.milliseconds)}"
        lines.setdefault((_name(entry.network, entry.dtype), entry.varied), []).append(size)
    rows = [[*key, ", ".join(sizes)] for key, sizes in lines.items()]
    return Part(f"ms of our step as one size grows, otherwise at task {TASKS}", ("network", "varied", "size: ms"), rows)


def _whole_stream(found: Bench) -> Part:
    own = found.whole_stream
    assert own is not None
    rows = [
        ["classical, as released", _digits(own.released), _times(own.ratio)],
        ["classical, numpy's threads held back", _digits(own.pinned), _times(own.pinned_ratio)],
        ["ours", _digits(own.ours), ""],
    ]
    remark = (
        "One seed, all steps and evaluations, one formulation after the other. Faster: how many times ours is faster."
    )
    return Part(
        f"A complete MNIST-R stream with GEM{_images(found)}", ("formulation", "seconds", "faster"), rows, [remark]
    )


def _images(found: Bench) -> str:
    return {None: "", True: " (MNIST)", False: " (random images in MNIST's size)"}[found.real_data]


def _streams(found: Bench) -> Part:
    rows = []
    for run in found.streams:
        about = "" if run.complete else "about "
        speed = f"{about}{run.seconds:.1f}", f"{about}{_rate(run.per_minute)}"
        rows.append([str(run.replicas), *speed, _mb(run.peak_mb)])
    headings = ("streams at once", "seconds", "streams a minute", "GPU memory (MB)")
    return Part(f"MNIST-R, GEM + predicted gradients{_images(found)}", headings, rows)


def _epochs(found: Bench) -> Part:
    rows = []
    for own in found.epochs:
        about = "" if own.complete else "about "
        seconds = f"{about}{own.seconds:.2f}", f"{about}{own.seconds_a_seed:.2f}"
        rows.append([own.dtype, str(own.seeds), *seconds, _mb(own.peak_mb)])
    title = "ACL + predicted gradients, an epoch of a task of CIFAR-100 (random images)"
    return Part(title, ("arithmetic", "seeds at once", "seconds", "seconds a seed", "GPU memory (MB)"), rows)


def _few_labels(found: Bench) -> Part:
    batch, size = found.few_labels[0].batch, found.few_labels[0].size
    rows = [
        [own.dtype, str(own.replicas), _digits(own.milliseconds), _rate(own.images_a_second), _mb(own.peak_mb)]
        for own in found.few_labels
    ]
    title = f"Meta-gradient, Conv-Large, {batch} + {batch} images of {size}x{size} a step and seed"
    return Part(title, ("arithmetic", "seeds", "ms a step", "images a second", "GPU memory (MB)"), rows)


def _head_starts(found: Bench) -> Part:
    """Beside the table, what a preset's head starts would take where several seeds train at once."""
    rows, remarks = [], ["Faster: how many times, seed for seed, than the plain formulation."]
    for own in found.head_starts:
        if own.seeds == 1:
            plain = _digits(own.plain_milliseconds), _rate(own.plain_images_a_second)
            rows.append([own.dtype, "plain", "1", *plain, ""])
        ours = _digits(own.milliseconds), _rate(own.images_a_second), _times(own.ratio)
        rows.append([own.dtype, "ours", str(own.seeds), *ours])
        if own.seeds == SEEDS:
            remarks.append(
                f"{SEEDS} head starts of {STEPS:,} steps in {own.dtype} take about {_minutes(own.hours())}; the plain "
                f"formulation, one after another, about {_minutes(own.plain_hours())}."
            )
    title = f"Head start, slim ResNet-18, {found.head_starts[0].batch} images in two views a step and seed"
    return Part(title, ("arithmetic", "formulation", "seeds", "ms a step", "images a second", "faster"), rows, remarks)


def _methods(found: Bench) -> Part:
    rows = [[own.learner, _digits(own.milliseconds), _times(own.ratio)] for own in found.methods]
    remark = (
        f"In the last of {method_times.TASKS} tasks, batches of {method_times.BATCH}, one seed. Against ER: times as "
        "long as a step of experience replay, measured in turns. What a learner does between tasks is left out."
    )
    headings = ("learner", "ms a step", "against ER")
    return Part("A step of every learner, equally many images in memory", headings, rows, [remark])


def _checkpoints(found: Bench) -> Part:
    remarks = [
        f"A checkpoint of the slim ResNet-18 with GEM after task {cost.task} ({cost.megabytes:.0f} MB): training "
        f"waits {_digits(cost.blocked_ms)} ms, writing takes {_digits(cost.written_ms)} ms beside it; "
        f"{100 * cost.share:.2f} % of the task's time."
        for cost in found.checkpoints
    ]
    return Part("Checkpoints", (), (), remarks)


def _ray(found: Bench) -> Part:
    times = found.ray
    assert times is not None
    remarks = [
        f"One thread a cell: two cells at once take {times.two:.2f} of the time of one after the other.",
        f"{times.cells} cells of {times.cell_seconds:.1f} s on {times.workers} CPUs take {100 * times.overhead:.0f} % "
        f"more than {times.workers} such processes without Ray would.",
    ]
    return Part("Ray", (), (), remarks)


def _name(network: str, dtype: str) -> str:
    return f"{network.removeprefix('slim-')} {dtype}"


def _digits(number: float) -> str:
    digits = 0 if number >= 100 else 1 if number >= 10 else 2
    return f"{number:.{digits}f}"


def _times(ratio: float) -> str:
    return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.1f}"


def _rate(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.1f}"


def _minutes(hours: float) -> str:
    return f"{60 * hours:.0f} minutes" if hours < 2 else f"{hours:.1f} hours"


def _mb(peak: int | None) -> str:
    return "" if peak is None else f"{peak:,}"
