import gc
import weakref
from pathlib import Path

import pytest
import torch
from torch import nn

from gradcast.data.cache import Cache
from gradcast.data.load import Shelf, untracked
from gradcast.devices import Place
from gradcast.networks import MLP
from gradcast.specs import build, build_stream
from gradcast.specs.spec import Setting
from gradcast.specs.text import load
from gradcast.streams.stream import Stream
from gradcast.training import grouping
from gradcast.training.grouping import activation_numbers, recalled_images, replica_bytes, together
from gradcast.training.schedule_tables import ConstantSpec
from tests.helpers import CPU

PLACE = Place(CPU, torch.float32)


def scene(*settings: str) -> tuple[Setting, Stream]:
    setting = load("digits", list(settings)).rows[1].setting
    return setting, build_stream.stream(setting.stream, Shelf(Path("data"), Cache(Path("cache")), untracked))


def test_all_seeds_at_once_where_memory_is_plenty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouping, "free_memory", lambda device: 1 << 40)
    assert together(*scene(), [3, 1, 4, 1, 5], PLACE) == [[3, 1, 4, 1, 5]]


def test_groups_are_nearly_equal_and_keep_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    need = replica_bytes(*scene(), PLACE)
    monkeypatch.setattr(grouping, "free_memory", lambda device: int(3.5 * need / grouping.SHARE))
    assert together(*scene(), list(range(7)), PLACE) == [[0, 1], [2, 3], [4, 5, 6]]


def test_one_seed_is_tried_however_little_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouping, "free_memory", lambda device: 0)
    assert together(*scene(), [0, 1], PLACE) == [[0], [1]]


def test_need_grows_with_memories_tasks_and_type() -> None:
    base = replica_bytes(*scene(), PLACE)
    assert replica_bytes(*scene("learner.memory=512"), PLACE) > 1.5 * base
    assert replica_bytes(*scene("stream.tasks=5"), PLACE) < 0.6 * base
    assert replica_bytes(*scene(), Place(CPU, torch.float64)) > 1.5 * base
    assert replica_bytes(*scene("learner.name=finetune"), PLACE) < 0.3 * base


def test_one_constraint_needs_less_than_one_a_task() -> None:
    gem, agem, large = (
        replica_bytes(*scene(f"learner.name={name}", *more), PLACE)
        for name, *more in [("gem",), ("a-gem",), ("a-gem", "learner.reference=100000")]
    )
    assert agem < 0.5 * gem
    assert agem < large < gem
    agem_row = scene("learner.name=a-gem", "learner.memory=65")[0]
    gem_row, er_row = (scene(f"learner.name={name}")[0] for name in ("gem", "er"))
    assert recalled_images(agem_row, 0) == (0, 0)
    assert recalled_images(agem_row, 2) == (130, 1)
    assert recalled_images(agem_row, 19) == (256, 1)
    assert recalled_images(gem_row, 19) == (19 * 128, 19)
    assert recalled_images(er_row, 19) == (10, 0)


def test_activations_are_what_the_backward_pass_needs() -> None:
    network = MLP([12, 7, 5, 3])
    assert activation_numbers(network, (1, 3, 4)) == 12 + 7 + 5  # inputs of the three layers; ReLU keeps its output


def test_counting_lets_go_of_the_weights() -> None:
    network = MLP([12, 7, 5, 3])
    watched = weakref.ref(list(network.parameters())[-2])  # the last layer's weight
    activation_numbers(network, (1, 3, 4))
    del network
    gc.collect()
    assert watched() is None


def test_tasks_of_many_epochs_need_room_for_the_best_and_for_every_tasks_modules() -> None:
    def need(*changes: str) -> int:
        setting = load("acl-digits", list(changes)).rows[0].setting
        stream = build_stream.stream(setting.stream, Shelf(Path("data"), Cache(Path("cache")), untracked))
        return replica_bytes(setting, stream, PLACE)

    base = need()
    assert need("model.widths=[640, 640, 640]") > 2 * base
    assert need("stream.batch=320", "policy.batch=320") > 2 * base
    assert need("learner.memory=64") > 1.5 * base
    joint = ["learner.name=joint", "stream.classes_per_task=2"]
    assert need(*joint, "stream.tasks=5", "stream.batch=100") > need(*joint, "stream.tasks=2", "stream.batch=100")


def test_few_labels_need_room_for_two_views_and_further_weights() -> None:
    settings = [row.setting for row in load("digits-100").rows if row.name in ("supervised", "mg")]
    stream = build_stream.stream(settings[0].stream, Shelf(Path("data"), Cache(Path("cache")), untracked))
    made = MLP([64, 64, 10], norm="batch")
    weights = sum(p.numel() for p in made.parameters())
    for setting, images in zip(settings, (64, 64 + 64), strict=True):
        alone = setting.model_copy(update={"schedule": ConstantSpec()})
        more = 6 * weights * 4 + 5 * images * activation_numbers(made, (1, 8, 8))
        assert replica_bytes(setting, stream, PLACE) == replica_bytes(alone, stream, PLACE) + more


def test_every_signal_of_a_row_has_its_images() -> None:
    one, two = (scene(f"signal={tables}") for tables in ("[{name='soft'}]", "[{name='soft'}, {name='contrastive'}]"))
    made = build.network(*one)
    views = 2 * one[0].policy.batch
    need = 5 * views * activation_numbers(made, one[1].shape)
    assert replica_bytes(*two, PLACE) - replica_bytes(*one, PLACE) >= need


def test_weights_that_a_signal_trains_are_counted_with_their_moments() -> None:
    small, large = (replica_bytes(*scene("signal.name=tnar", f"signal.latent={n}"), PLACE) for n in (4, 504))
    further = 500 * (3 * 512 + 2)  # of the encoder, twice as many outputs, and of the decoder
    assert large - small == 4 * 8 * further


def test_rows_of_patches_are_counted_where_they_are_made() -> None:
    network = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.Conv2d(4, 5, 2, stride=2), nn.Conv2d(5, 6, 3, padding=1), nn.Conv2d(6, 2, 1)
    )
    without = activation_numbers(network, (3, 8, 8))
    rows = 6 * 6 * 27 + 3 * 3 * 16  # of those that are neither padded nor of single pixels
    assert activation_numbers(network, (3, 8, 8), patches=True) == without + rows
    assert activation_numbers(network, (3, 8, 8)) == without
    assert activation_numbers(MLP((6, 5, 3)), (6,), patches=True) == activation_numbers(MLP((6, 5, 3)), (6,))
