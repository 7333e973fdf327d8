import pytest
import torch

from gradcast.bench import few_labels
from gradcast.bench.few_labels import Speed, kinds, speed


def test_labelled_and_other_images_of_all_seeds_count() -> None:
    assert Speed("tf32", 3, 128, 32, 20.0, None).images_a_second == pytest.approx(2 * 3 * 128 * 50)


def test_a_gpu_has_every_arithmetic_and_a_cpu_its_own() -> None:
    assert kinds(torch.device("cpu")) == [("float32", 1), ("float32", 3)]
    assert kinds(torch.device("cuda")) == [(d, r) for d in ("float32", "tf32", "bf16") for r in (1, 3)]


def test_steps_of_the_published_network_are_timed_after_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    loops, clock = [], iter([5.0, 5.25])
    build = few_labels._loop

    def kept(*given: object) -> object:
        loops.append(build(*given))  # type: ignore[arg-type]
        return loops[-1]

    monkeypatch.setattr(few_labels, "_loop", kept)
    monkeypatch.setattr(few_labels, "time", type("Clock", (), {"perf_counter": lambda: next(clock)}))
    monkeypatch.setattr(few_labels, "CPU", (4, 1, 12))
    found = speed("cpu", "float32", 1)
    assert found == Speed("float32", 1, 4, 12, 250.0, None)
    (loop,) = loops
    step = loop.trainer.update
    assert step.count == 2  # one before the clock, one on it
    assert sum(step.model.sizes) == 3_121_802
    (own,) = step.signals
    assert (own.name, own.signal.shares is not None) == ("meta-gradient", True)
