import numpy as np
import torch

from gradcast.data.digits import digits
from gradcast.streams.scenarios import build
from gradcast.streams.stream import Stream, to_unit
from tests.helpers import CPU


def stream(samples: int | None = 25) -> Stream:
    return build(digits(0), "rotated", tasks=3, classes_per_task=None, samples=samples, data_seed=0)


def batches(built: Stream, seeds: list[int], task: int = 0, epochs: int = 1) -> list[torch.Tensor]:
    return [b.x for b in built.batches(task, seeds, batch=10, epochs=epochs, device=CPU, dtype=torch.float32)]


def test_last_batch_is_short_and_steps_are_counted() -> None:
    built = stream()
    assert [x.shape[1] for x in batches(built, [0])] == [10, 10, 5]
    assert built.steps(batch=10, epochs=2) == 18
    assert stream(None).count(0) == 1297


def test_replicas_see_what_they_would_alone() -> None:
    together = batches(stream(), [0, 1, 2])
    for replica in range(3):
        for both, own in zip(together, batches(stream(), [replica]), strict=True):
            assert torch.equal(both[replica], own[0])
    assert not torch.equal(together[0][0], together[0][1])


def test_samples_differ_between_tasks_and_never_repeat_within_one() -> None:
    built = stream(None)
    seen = torch.cat(batches(built, [0]), dim=1)[0].flatten(1)
    expected = to_unit(torch.from_numpy(built.tasks[0].train.x), torch.float32)
    assert len(seen) == 1297
    turned = torch.from_numpy(np.sort(seen.sum(1).numpy()))
    assert turned.sum() <= expected.sum() + 1e-3  # rotation only cuts corners off
    first, second = batches(stream(), [0], task=0)[0], batches(stream(), [0], task=1)[0]
    assert not torch.equal(first, second)


def test_epochs_repeat_the_samples_in_another_order() -> None:
    both = torch.cat(batches(stream(), [0, 1], epochs=2), dim=1).flatten(2)
    for replica in range(2):
        first, second = both[replica, :25], both[replica, 25:]
        assert not torch.equal(first, second)
        key = lambda x: sorted(map(tuple, x.tolist()))  # noqa: E731
        assert key(first) == key(second)


def test_labels_belong_to_their_images() -> None:
    built = build(digits(0), "permuted", tasks=2, classes_per_task=None, samples=50, data_seed=0)
    order = built.facts["permutations"][1]
    known = {x.tobytes(): int(y) for x, y in zip(digits(0).train.x, digits(0).train.y, strict=True)}
    for batch in built.batches(1, [5], batch=10, epochs=1, device=CPU, dtype=torch.float64):
        for x, y in zip(
            (255 * batch.x[0]).round().to(torch.uint8).flatten(1).numpy(), batch.y[0].tolist(), strict=True
        ):
            original = np.empty(64, np.uint8)
            original[order] = x
            assert known[original.tobytes()] == y
