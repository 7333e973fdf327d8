from dataclasses import replace

import numpy as np
import torch
from torch import nn

from gradcast.data.digits import digits
from gradcast.devices import Place
from gradcast.streams import scenarios
from gradcast.streams.augment import AUGMENTATIONS
from gradcast.streams.frozen_stages import seen_stream
from gradcast.streams.scale import Scale
from gradcast.streams.stream import Stream
from gradcast.streams.task_data import TaskData
from tests.helpers import CPU

PLACE = Place(CPU, torch.float32)


def stream(scenario: str) -> Stream:
    source = digits(0)
    if scenario == "split":
        tasks, facts = scenarios.split(source, 5, 0, classes_per_task=2, class_order="natural")
    else:
        tasks, facts = scenarios.rotated(source, 2, 0)
    return Stream(tasks, source.shape, facts, scale=Scale((0.3,), (0.4,)), samples=20)


def stages() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU()).eval().requires_grad_(False)


def test_features_are_what_the_frozen_stages_give_for_the_scaled_images() -> None:
    own, frozen = stream("split"), stages()
    seen = seen_stream(own, frozen, PLACE)
    batches = [TaskData(each, [3, 4], PLACE) for each in (own, seen)]
    plain, found = (data.batch(data.first_pass(2).cut(5, 9)) for data in batches)
    assert torch.equal(plain.y, found.y)
    torch.testing.assert_close(found.x.flatten(0, 1), frozen(plain.x.flatten(0, 1)))
    expected = frozen((torch.from_numpy(own.test(4).x).float() / 255 - 0.3) / 0.4)
    torch.testing.assert_close(torch.from_numpy(np.array(seen.test(4).x)), expected)
    assert seen.tasks[0].train.source is seen.tasks[3].train.source  # computed once
    assert seen.describe() == own.describe()


def test_images_that_change_pass_whenever_they_are_shown() -> None:
    frozen = stages()
    for own in (stream("rotated"), replace(stream("split"), steps=(AUGMENTATIONS["flip"],))):
        seen = seen_stream(own, frozen, PLACE)
        assert seen.tasks is own.tasks
        plain, found = (TaskData(each, [0], PLACE) for each in (own, seen))
        cut = plain.first_pass(1).cut(0, 4)
        generators = [[torch.Generator().manual_seed(5)] for _ in range(2)]
        torch.testing.assert_close(
            found.batch(cut, generators[0]).x.flatten(0, 1), frozen(plain.batch(cut, generators[1]).x.flatten(0, 1))
        )


def test_tasks_of_each_seeds_own_share_their_features() -> None:
    of_seed, facts = scenarios.seeded(digits(0), 5, classes_per_task=2)
    own = Stream(of_seed(0), digits(0).shape, facts, own_tasks=of_seed, samples=10)
    seen = seen_stream(own, stages(), PLACE)
    data = TaskData(seen, [0, 1], PLACE)
    plain = TaskData(own, [0, 1], PLACE)
    torch.testing.assert_close(
        data.batch(data.train(1)).x.flatten(0, 1), stages()(plain.batch(plain.train(1)).x.flatten(0, 1))
    )
