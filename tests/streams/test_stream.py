import numpy as np
import torch

from gradcast.data.digits import digits
from gradcast.streams.augment import AUGMENTATIONS, Augmentation
from gradcast.streams.scale import Scale
from gradcast.streams.scenarios import permuted, rotated
from gradcast.streams.stream import Stream, Task
from tests.helpers import CPU


def stream(samples: int | None = 25, ratio: float = 1.0, steps: tuple[Augmentation, ...] = ()) -> Stream:
    tasks, width, facts = rotated(digits(0), 3, 0)
    return Stream(tasks, (1, 8, 8), width, facts, samples=samples, ratio=ratio, steps=steps)


def batches(built: Stream, seeds: list[int], task: int = 0, epochs: int = 1) -> list[torch.Tensor]:
    return [b.x for b in built.batches(task, seeds, batch=10, epochs=epochs, device=CPU, dtype=torch.float32)]


def test_last_batch_is_short_and_steps_are_counted() -> None:
    built = stream()
    assert [x.shape[1] for x in batches(built, [0])] == [10, 10, 5]
    assert built.length(batch=10, epochs=2) == 18
    assert stream(None).count(0) == 1297


def test_replicas_see_what_they_would_alone() -> None:
    together = batches(stream(), [0, 1, 2])
    for replica in range(3):
        for both, own in zip(together, batches(stream(), [replica]), strict=True):
            assert torch.equal(both[replica], own[0])
    assert not torch.equal(together[0][0], together[0][1])


def test_samples_never_repeat_within_a_task_and_differ_between_tasks() -> None:
    tasks, width, facts = rotated(digits(0), 3, 0)
    plain = [Task(task.train, task.test, None) for task in tasks]
    seen = torch.cat(batches(Stream(plain, (1, 8, 8), width, facts), [0]), dim=1)[0].flatten(1)
    everything = Scale()(torch.from_numpy(digits(0).train.x), torch.float32).flatten(1)
    assert sorted(map(tuple, seen.tolist())) == sorted(map(tuple, everything.tolist()))
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
    tasks, width, facts = permuted(digits(0), 2, 0)
    built = Stream(tasks, (1, 8, 8), width, facts, samples=50)
    order = built.facts["permutations"][1]
    known = {x.tobytes(): int(y) for x, y in zip(digits(0).train.x, digits(0).train.y, strict=True)}
    for batch in built.batches(1, [5], batch=10, epochs=1, device=CPU, dtype=torch.float64):
        for x, y in zip(
            (255 * batch.x[0]).round().to(torch.uint8).flatten(1).numpy(), batch.y[0].tolist(), strict=True
        ):
            original = np.empty(64, np.uint8)
            original[order] = x
            assert known[original.tobytes()] == y


def test_the_labelled_ratio_keeps_the_first_of_the_shuffled_samples() -> None:
    whole, part = torch.cat(batches(stream(50), [0]), dim=1), torch.cat(batches(stream(50, ratio=0.4), [0]), dim=1)
    assert part.shape[1] == 20
    assert torch.equal(part, whole[:, :20])
    assert stream(50, ratio=0.4).length(batch=10, epochs=1) == 6


def test_augmented_batches_do_not_depend_on_grouping_and_change_each_epoch() -> None:
    built = stream(30, steps=(AUGMENTATIONS["crop"], AUGMENTATIONS["flip"]))
    together, alone = batches(built, [0, 1], epochs=2), batches(built, [1], epochs=2)
    assert all(torch.equal(both[1], own[0]) for both, own in zip(together, alone, strict=True))
    plain = batches(stream(30), [1])
    assert not torch.equal(plain[0], alone[0])
