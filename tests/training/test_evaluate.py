from itertools import product

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from gradcast.core import Learner, Scorer
from gradcast.data.images import Images, Source
from gradcast.devices import Place
from gradcast.errors import GradcastError
from gradcast.learners.finetune import Finetune
from gradcast.replicas.heads import Heads
from gradcast.replicas.replicas import Replicas
from gradcast.streams import scenarios
from gradcast.streams.scale import Scale
from gradcast.streams.stream import Stream
from gradcast.streams.task_data import TaskData
from gradcast.training import evaluate
from gradcast.training.evaluate import CHUNK, FILTERED_CHUNK, SIZE, OwnTests, SharedTests, task_knowledge
from gradcast.training.step import Step
from gradcast.training.task_modules import TaskModules
from gradcast.training.trainer import StepTrainer
from tests.helpers import CPU

PLACE = Place(CPU, torch.float64)


class Brightness(torch.nn.Module):
    """Says class 1 where the pixel is brighter than its threshold."""

    def __init__(self, threshold: float) -> None:
        super().__init__()
        self.threshold = torch.nn.Parameter(torch.tensor([threshold]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        value = x.flatten(1)
        return torch.cat([self.threshold - value, value - self.threshold], dim=1)


def model(*thresholds: float) -> Replicas:
    return Replicas([Brightness(t) for t in thresholds], Heads.even(2), device=CPU, dtype=torch.float64)


def trained(*thresholds: float, learner: Learner | None = None) -> StepTrainer:
    return StepTrainer(Step(model(*thresholds), learner or Finetune(), 0.1))


class OwnThresholds(StepTrainer):
    """Every task has a threshold of its own."""

    def weights_for(self, task: int) -> Tensor:
        return torch.full_like(self.model.theta, [0.5, 0.9][task])


class Contrary(Finetune):
    """Answers with the smallest logit."""

    def scorer(self, model: Replicas) -> Scorer:
        return lambda x: -model.everything(x, statistics="frozen").z


class Counting(torch.nn.Module):
    """Notes how many images come at once."""

    def __init__(self, seen: list[int]) -> None:
        super().__init__()
        self.seen = seen

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.append(len(x))
        return x

    def __deepcopy__(self, memo: object) -> "Counting":
        return Counting(self.seen)


def test_accuracy_of_every_replica_on_every_task() -> None:
    x = np.array([0, 100, 200, 255], np.uint8).reshape(4, 1, 1, 1)
    tests = [Images(x, np.array([0, 0, 1, 1])), Images(x[:2], np.array([1, 1]))]
    evaluator = SharedTests(tests, Scale(), drop_last=False, place=PLACE)
    found = evaluator(trained(0.5, 0.2), range(2))
    assert found.tolist() == [[1.0, 0.0], [0.75, 0.5]]
    assert evaluator(trained(0.5, 0.2), range(1, 2)).tolist() == [[0.0], [0.5]]
    assert evaluator(trained(0.5, 0.2), range(0)).shape == (2, 0)


def test_drop_last_never_looks_at_the_last_image_and_counts_it_as_wrong() -> None:
    x = np.array([0, 0, 0, 255], np.uint8).reshape(4, 1, 1, 1)
    only_last_right = Images(x, np.array([1, 1, 1, 1]))
    for drop_last, expected in ((False, 0.25), (True, 0.0)):
        evaluator = SharedTests([only_last_right], Scale(), drop_last=drop_last, place=PLACE)
        assert evaluator(trained(0.5), range(1)).tolist() == [[expected]]


def test_large_images_come_in_smaller_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of CIFAR's size a GPU sees 2,552 at once, ten thousand of which would fill it with features."""
    assert FILTERED_CHUNK["cuda"] * SIZE // (3 * 32 * 32) == 2552
    x, y = np.zeros((11, 1, 2, 2), np.uint8), np.zeros(11, np.int64)
    x[7] = 255
    evaluator = SharedTests([Images(x, y)], Scale(), drop_last=False, place=PLACE)
    own, seen = trained(0.5), list[int]()
    monkeypatch.setattr(
        own.model,
        "outputs_of",
        lambda images: (
            seen.append(len(images)) or torch.stack([0.5 - images[:, 0, 0, 0], images[:, 0, 0, 0]], -1)[None]
        ),
    )
    monkeypatch.setattr(evaluate, "SIZE", 1)
    for pixels in (18, 3, 44):
        monkeypatch.setitem(evaluate.CHUNK, "cpu", pixels)
        assert evaluator(own, range(1)).item() == 10 / 11
    assert seen == [4, 4, 3, *[1] * 11, 11]


def test_networks_with_filters_see_fewer_images_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = np.zeros((7, 1, 8, 8), np.uint8), np.zeros(7, np.int64)
    evaluator = SharedTests([Images(x, y)], Scale(), drop_last=False, place=Place(CPU, torch.float32))
    monkeypatch.setitem(evaluate.CHUNK, "cpu", 5)
    monkeypatch.setitem(evaluate.FILTERED_CHUNK, "cpu", 3)
    for layer, expected in ((nn.Linear(64, 2), [5, 2]), (nn.Conv2d(1, 2, 8), [3, 3, 1])):
        layers = [nn.Flatten(), layer] if isinstance(layer, nn.Linear) else [layer, nn.Flatten()]
        seen = list[int]()
        network = nn.Sequential(Counting(seen), *layers)
        model = Replicas([network], Heads.even(2), device=CPU, dtype=torch.float32)
        evaluator(StepTrainer(Step(model, Finetune(), 0.1)), range(1))
        assert seen == expected


def test_chunks_cover_everything() -> None:
    count = 2 * CHUNK["cpu"] + 7
    y = np.arange(count) % 2
    x = (255 * y).astype(np.uint8).reshape(count, 1, 1, 1)
    x[-1] = 255 - x[-1]
    evaluator = SharedTests([Images(x, y)], Scale(), drop_last=False, place=Place(CPU, torch.float32))
    single = Replicas([Brightness(0.5)], Heads.even(2), device=CPU, dtype=torch.float32)
    assert evaluator(StepTrainer(Step(single, Finetune(), 0.1)), range(1)).item() == (count - 1) / count


def levels() -> Source:
    """Four classes of images of one grey, of unequal numbers to test on."""
    grey = np.array([0, 100, 200, 255], np.uint8)
    y = np.repeat(np.arange(4), 3)
    test = np.repeat(np.arange(4), [1, 2, 3, 4])
    images = [Images(grey[each].reshape(-1, 1, 1, 1), each) for each in (y, test)]
    return Source("levels", *images, tuple("abcd"))


def own_tests(seeds: list[int], *, drop_last: bool = False) -> OwnTests:
    own, facts = scenarios.seeded(levels(), 2, classes_per_task=2)
    return OwnTests(TaskData(Stream(own(0), (1, 1, 1), facts, own_tasks=own), seeds, PLACE), drop_last=drop_last)


@pytest.mark.parametrize("drop_last", [False, True])
def test_tasks_of_each_seeds_own_are_counted_as_those_that_all_share(drop_last: bool) -> None:
    seeds = [3, 5]
    found = own_tests(seeds, drop_last=drop_last)(trained(0.5, 0.2), range(2))
    own, _ = scenarios.seeded(levels(), 2, classes_per_task=2)
    for replica, seed in enumerate(seeds):
        shared = SharedTests([task.test.images() for task in own(seed)], Scale(), drop_last=drop_last, place=PLACE)
        assert torch.equal(found[replica], shared(trained(0.5, 0.2), range(2))[replica])
    assert own_tests(seeds)(trained(0.5, 0.2), range(0)).shape == (2, 0)
    only = own_tests(seeds, drop_last=drop_last)(trained(0.5, 0.2), range(1, 2))
    assert torch.equal(only[:, 0], found[:, 1])


def test_tasks_with_weights_of_their_own_are_evaluated_with_them_and_the_model_keeps_its_own() -> None:
    x = np.array([0, 100, 200, 255], np.uint8).reshape(4, 1, 1, 1)
    tests = [Images(x, np.array([0, 0, 1, 1]))] * 2
    own = OwnThresholds(Step(model(0.25, 0.125), Finetune(), 0.1))
    shared = SharedTests(tests, Scale(), drop_last=False, place=PLACE)
    assert shared(own, range(2)).tolist() == [[1.0, 0.75]] * 2
    assert own.model.theta.tolist() == [[0.25], [0.125]]
    plain = own_tests([3, 5])(trained(0.9, 0.9), range(1, 2))
    assert torch.equal(own_tests([3, 5])(own, range(1, 2)), plain)
    assert own.model.theta.tolist() == [[0.25], [0.125]]


def test_a_learner_may_answer_in_its_own_way() -> None:
    x = np.zeros((3, 1, 1, 1), np.uint8)
    tests = [Images(x, np.array([0, 0, 1])), Images(x, np.array([1, 1, 1]))]
    shared = SharedTests(tests, Scale(), drop_last=False, place=PLACE)
    plain, contrary = trained(0.5), trained(0.5, learner=Contrary())
    assert shared(contrary, range(2)).tolist() == [[pytest.approx(1 / 3), 1.0]]
    torch.testing.assert_close(own_tests([3])(contrary, range(2)), 1 - own_tests([3])(plain, range(2)))


class Levels(nn.Module):
    """A column for each grey, the nearest of which is the answer; one more shift of all replicas' own."""

    def __init__(self, shift: float) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.tensor([shift]))

    def forward(self, x: Tensor) -> Tensor:
        greys = torch.tensor([0, 100, 200, 255], dtype=x.dtype) / 255
        return -(x.flatten(1) + self.shift - greys).abs()


@pytest.mark.parametrize("done", [0, 1, 2])
@pytest.mark.parametrize("drop_last", [False, True])
def test_without_the_task_the_answer_is_one_of_all_classes_seen(done: int, drop_last: bool) -> None:
    whole, shifts = levels(), (0.0, 0.3)
    for kind in ("masked", "seen"):
        heads = Heads.of([(0, 1), (2, 3)], kind)  # type: ignore[arg-type]
        replicas = Replicas([Levels(shift) for shift in shifts], heads, device=CPU, dtype=torch.float64)
        trainer = StepTrainer(Step(replicas, Finetune(), 0.1))
        tasks, _ = scenarios.split(whole, 2, 0, classes_per_task=None, class_order="natural")
        shared = SharedTests([task.test.images() for task in tasks], Scale(), drop_last=drop_last, place=PLACE)
        known, unknown = shared.both(trainer, range(2), done)
        assert torch.equal(known, shared(trainer, range(2)))
        for (replica, shift), task in product(enumerate(shifts), range(2)):
            images = tasks[task].test.images()
            x = torch.from_numpy(images.x[: len(images) - drop_last]).double() / 255
            z = Levels(shift).double()(x)[:, : 2 * done]
            answers = z.argmax(1).tolist() if done else []
            truth = (images.y + 2 * task).tolist()
            right = sum(answer == column for answer, column in zip(answers, truth, strict=False))
            assert unknown[replica, task] == right / len(images)


@pytest.mark.parametrize("drop_last", [False, True])
def test_without_the_task_of_each_seeds_own_tasks(drop_last: bool) -> None:
    seeds, heads = [3, 5], Heads.of([(0, 1), (2, 3)], "masked")
    replicas = Replicas([Levels(0.1), Levels(0.3)], heads, device=CPU, dtype=torch.float64)
    trainer = StepTrainer(Step(replicas, Finetune(), 0.1))
    found = own_tests(seeds, drop_last=drop_last).both(trainer, range(2), 2)
    own, _ = scenarios.seeded(levels(), 2, classes_per_task=2)
    for replica, seed in enumerate(seeds):
        shared = SharedTests([task.test.images() for task in own(seed)], Scale(), drop_last=drop_last, place=PLACE)
        expected = shared.both(trainer, range(2), 2)
        assert all(torch.equal(one[replica], other[replica]) for one, other in zip(found, expected, strict=True))
    assert not torch.equal(*found)


def test_what_is_known_of_the_task_follows_classes_and_learner() -> None:
    different, same = Stream.without_images((1, 1, 1), [(0, 1), (2, 3)]), Stream.without_images((1, 1, 1), [(0, 1)] * 2)
    plain, own = trained(0.5), trained(0.5)
    own.modules = TaskModules(own.model, lambda: Brightness(0.5), [0], shared="none", purpose="own")
    assert task_knowledge("auto", different, plain) == "both"
    assert task_knowledge("auto", different, trained(0.5, learner=Contrary())) == "both"
    assert task_knowledge("auto", same, plain) == "known"
    assert task_knowledge("auto", different, own) == "known"
    assert task_knowledge("unknown", different, plain) == "unknown"
    with pytest.raises(GradcastError, match="weights of each task's own: leave it out"):
        task_knowledge("both", different, own)
