import pytest
from rich.console import Console

from gradcast.bench.bench_result import Bench, Comparison, Growth
from gradcast.bench.epoch_times import EpochTime
from gradcast.bench.few_labels import Speed
from gradcast.bench.head_start_times import HeadStartTime
from gradcast.bench.method_times import MethodTime
from gradcast.bench.print_bench import print_bench
from gradcast.bench.saving import STEPS, Cost
from gradcast.bench.step_times import Timing
from gradcast.bench.streams import Throughput

MACHINE: dict[str, object] = {"device": "NVIDIA H200", "threads": 16}
SLOW, PINNED, OURS = (Timing(milliseconds, milliseconds + 1, 0.67) for milliseconds in (1000.0, 600.0, 100.0))


def shown(found: Bench) -> str:
    console = Console(width=80, record=True)
    print_bench(console, found)
    return console.export_text()


def test_tables_fit_into_eighty_columns() -> None:
    found = Bench(
        MACHINE,
        comparisons=[Comparison("slim-resnet18", "float32", 20, SLOW, PINNED, OURS)],
        agreement=2e-13,
        growth=[Growth("slim-resnet18", "bf16", "memories", size, OURS) for size in (64, 128, 256, 512)],
        streams=[Throughput(64, 120.0, 60.0, False, None)],
        peak_mb={"slim-resnet18 tf32": 7600},
        epochs=[EpochTime("float32", 5, 200.0, 40.0, False, None), EpochTime("tf32", 5, 2.0, 0.4, True, 2048)],
        few_labels=[Speed("tf32", 3, 128, 32, 150.0, 12_345)],
        head_starts=[HeadStartTime("tf32", 1, 512, 100.0, 240.0), HeadStartTime("tf32", 10, 512, 600.0, 240.0)],
        methods=[MethodTime("der-plus-plus", "bf16", 12.34, 2.5)],
    )
    text = shown(found)
    assert "…" not in text
    assert "10 (6.0)" in text
    assert "about 60.0" in text
    assert "about 200.00" in text
    assert "about 0.40" not in text
    assert "5,120" in text
    told = " ".join(text.split())
    assert "tf32 plain 1 240 2,133 tf32 ours 1 100 5,120 2.4 tf32 ours 10 600 8,533 4.0" in told
    assert "10 head starts of 6,000 steps in tf32 take about 60 minutes; the plain formulation, one after" in told
    assert "about 4.0 hours" in told
    assert "der-plus-plus 12.3 2.5" in told
    assert "128 + 128 images of 32x32 a step and seed" in " ".join(text.split())


def test_a_checkpoint_is_held_against_the_task_it_ends() -> None:
    cost = Cost(20, 10.0, STEPS * 10.0 * 0.005, 500.0, 64.0, gpu=True)
    text = " ".join(shown(Bench(MACHINE, checkpoints=[cost])).split())
    assert "after task 20 (64 MB)" in text
    assert "0.50 % of the task's time" in text


@pytest.mark.parametrize("word", ["released", "Meta-gradient", "MNIST", "grows", "Head start", "every learner"])
def test_what_was_not_measured_is_not_shown(word: str) -> None:
    text = shown(Bench(MACHINE, epochs=[EpochTime("float32", 1, 2.0, 2.0, True, None)]))
    assert "an epoch of a task" in text
    assert word not in text
