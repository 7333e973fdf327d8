from contextlib import nullcontext

import numpy as np
import pytest
from torch import Tensor, nn

from gradcast.data.images import Images, Source
from gradcast.errors import GradcastError
from gradcast.networks import MLP
from gradcast.specs import build, build_stream
from gradcast.specs.fit import check
from gradcast.specs.spec import Setting
from gradcast.specs.text import load
from gradcast.streams.stream import Stream
from tests.specs.test_build import SHELF
from tests.streams.uneven import uneven_stream


def setting(*changes: str) -> Setting:
    return (
        load("digits", ["stream.samples=40", "stream.scenario=permuted", "model.norm=batch", *changes]).rows[1].setting
    )


def stream(found: Setting, shape: tuple[int, int] = (8, 8)) -> Stream:
    images = Images(np.zeros((600, 1, *shape), dtype=np.uint8), np.arange(600) % 10)
    return build_stream.stream(found.stream, SHELF, Source("blank", images, images, tuple("0123456789")))


GOOD = [
    [],
    ["signal.name=none", "policy.batch=1"],
    ["policy.p=0.0", "policy.batch=1"],
    ["policy.batchnorm=frozen", "policy.batch=1"],
    ["learner.name=er", "learner.memory=1"],
    ["learner.memory=1", "learner.batchnorm=frozen"],
    ["learner.name=a-gem", "learner.memory=10", "learner.reference=2"],
    ["learner.name=a-gem", "learner.reference=1", "learner.batchnorm=frozen"],
    ["learner.name=icarl", "learner.memory=100", "learner.batchnorm=frozen"],
    ["learner.name=icarl", "learner.memory=100", "model.norm=none"],
    ["model.norm=none", "policy.batch=1"],
    ["signal.name=rotation"],
    ["signal.name=contrastive"],
]


@pytest.mark.parametrize(("steps", "fits"), [("rotate", False), ("shift", True)])
def test_a_learner_turns_square_images_alone(steps: str, fits: bool) -> None:
    found = setting("signal.name=none", "learner.name=er", f"learner.augment=['{steps}']")
    with (
        nullcontext() if fits else pytest.raises(GradcastError, match="'rotate' needs square images; remove it from l")
    ):
        check(found, stream(found, (8, 6)))
    check(found, stream(found))


TINY = ["schedule.milestones=[4]", "schedule.warm_up=1", "schedule.test_every=1"]
ONLINE = ["signal.name=none", "learner.name=ewc", "learner.form=online", "learner.memory=10"]


@pytest.mark.parametrize(
    ("changes", "steps"),
    [
        ([], 4),
        (["stream.epochs=3"], 12),
        (["schedule.name=steps", "schedule.steps=5", *TINY], 5),
    ],
)
def test_an_interval_longer_than_the_first_task_is_refused(changes: list[str], steps: int) -> None:
    found = setting(*ONLINE, *changes, f"learner.interval={steps}")
    check(found, stream(found))
    longer = setting(*ONLINE, *changes, f"learner.interval={steps + 1}")
    with pytest.raises(GradcastError, match=rf"more than the {steps} steps of the first task.*set it to {steps} or"):
        check(longer, stream(longer))


@pytest.mark.parametrize("changes", GOOD, ids=str)
def test_what_fits_passes(changes: list[str]) -> None:
    found = setting(*changes)
    check(found, stream(found))
    assert found.stream.samples == 40


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ("policy.batch=1", "policy.batch"),
        ("learner.memory=1", "learner.memory"),
        ("stream.batch=1", "stream.batch"),
        ("stream.batch=13", "stream.batch"),
        ("head_start=AHEAD", "head_start.batch"),
    ],
)
def test_passes_of_one_image_are_refused(change: str, key: str) -> None:
    ahead = ["head_start.steps=2", "head_start.batch=1", "head_start.signal=rotation"]
    found = setting(*(ahead if change == "head_start=AHEAD" else [change]))
    with pytest.raises(GradcastError, match=f"{key} leads to a pass of a single image"):
        check(found, stream(found))


def test_larger_images_may_pass_alone() -> None:
    """The last layers of a ResNet see 2 x 2 values a channel of 16 x 16 pixels, and a single one of 8 x 8."""
    network = "model={name='slim-resnet18', width=2}"
    found = (
        load("digits", [network, "stream.samples=40", "policy.batch=1", "learner.memory=1", "stream.batch=1"])
        .rows[1]
        .setting
    )
    check(found, stream(found, (16, 16)))
    with pytest.raises(GradcastError, match="leads to a pass of a single image"):
        check(found, stream(found))


def test_a_reference_of_one_image_is_refused_as_well() -> None:
    found = setting("learner.name=a-gem", "learner.reference=1")
    with pytest.raises(GradcastError, match=r"learner\.reference leads to a pass of a single image"):
        check(found, stream(found))


def scheduled(*changes: str) -> tuple[Setting, Stream]:
    """A setting of many epochs, and its digits."""
    found = load("acl-digits", list(changes)).rows[1].setting
    assert found.plateau is not None
    return found, build_stream.stream(found.stream, SHELF)


def test_stored_images_of_acl_need_a_place_for_each_class_or_none() -> None:
    for memory in (0, 5):
        check(*scheduled(f"learner.memory={memory}"))
    with pytest.raises(GradcastError, match=r"learner\.memory = 4 leaves classes.*set it to 5 or more, or to 0"):
        check(*scheduled("learner.memory=4"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            ["learner.memory=99", "model.norm=none"],
            "99 leaves classes without an exemplar, all tasks together have 100; set it to 100",
        ),
        (["learner.memory=100"], "'icarl' passes single exemplars.*set learner.batchnorm=frozen"),
    ],
)
def test_exemplars_need_room_and_passes_of_one_image(changes: list[str], message: str) -> None:
    found = setting("learner.name=icarl", *changes)
    with pytest.raises(GradcastError, match=message):
        check(found, stream(found))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["learner.memory=19", "model.heads=masked"], "an image of each of the 10 classes .* set it to 20 or more"),
        (["learner.memory=20"], "'bic' tells new classes from old ones, and these tasks share theirs"),
        (["stream.tasks=1", "model.heads=masked"], "in a stream of one task there are none: raise stream.tasks"),
    ],
)
def test_new_classes_need_old_ones_and_images_to_set_aside(changes: list[str], message: str) -> None:
    found = setting("learner.name=bic", "model.norm=none", *changes)
    with pytest.raises(GradcastError, match=message):
        check(found, stream(found))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            ["learner.memory=9", "model.norm=none"],
            "room for 90 samples in all, .* 100 classes.* raise learner.memory",
        ),
        (["learner.capacity=99", "model.norm=none"], "room for 99 samples in all, .* raise learner.capacity"),
        (["learner.capacity=5", "model.norm=none"], "room for 5 samples in all, fewer than learner.replay = 10"),
        (["learner.replay=1"], "learner.replay leads to a pass of a single image"),
    ],
)
def test_x_der_has_room_for_every_class_and_passes_of_several_images(changes: list[str], message: str) -> None:
    found = setting("learner.name=x-der", "model.heads=masked", "learner.memory=256", *changes)
    with pytest.raises(GradcastError, match=message):
        check(found, stream(found))


def test_x_der_tells_new_classes_from_old_ones() -> None:
    found = setting("learner.name=x-der", "model.norm=none")
    with pytest.raises(GradcastError, match=r"'x-der' tells new classes from old ones.* set model\.heads=masked"):
        check(found, stream(found))


@pytest.mark.parametrize("learner", ["hal", "cfa"])
def test_memory_images_pass_together_at_the_end_of_a_task(learner: str) -> None:
    found = setting(f"learner.name={learner}", "learner.memory=12", "learner.replay=1", "model.heads=masked")
    with pytest.raises(GradcastError, match=r"learner\.replay leads to a pass of a single image"):
        check(found, stream(found))


@pytest.mark.parametrize("learner", ["a-gem", "hal", "icarl-original", "lucir", "cfa"])
def test_a_memory_by_class_needs_a_place_for_each(learner: str) -> None:
    replay = [] if learner == "a-gem" else ["learner.replay=2", "model.heads=masked"]
    found = setting(f"learner.name={learner}", "learner.memory=9", "model.norm=none", *replay)
    with pytest.raises(GradcastError, match=r"learner\.memory = 9 leaves .*, a task has 10; set it to 10 or more"):
        check(found, stream(found))


TURNING = [
    ["signal.name=rotation"],
    ["signal.name=contrastive", 'signal.augment=["rotate"]'],
    ["head_start.steps=1", "head_start.signal=rotation"],
    ["head_start.steps=1", 'head_start.signal=[{name = "vicreg", augment = ["rotate"]}]'],
]


@pytest.mark.parametrize("changes", TURNING, ids=str)
def test_turning_needs_squares(changes: list[str]) -> None:
    found = setting(*changes)
    with pytest.raises(GradcastError, match=r"turns images, these are not square \(10 x 6\)"):
        check(found, stream(found, (10, 6)))


class Gated(nn.Module):
    """Its last linear layer is not what makes the outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.main, self.gate = MLP([64, 10]), nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.main(x) + self.gate(x.flatten(1))
        return y


def test_features_must_be_what_makes_the_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "plain_network", lambda *_: Gated())
    found = setting("signal.name=contrastive")
    with pytest.raises(GradcastError, match="Gated does not end in a linear layer of 10 outputs"):
        check(found, stream(found))


def test_adversarial_learners_have_no_features_for_signals() -> None:
    check(*scheduled())
    with pytest.raises(GradcastError, match="AclNetwork does not end in a linear layer"):
        check(*scheduled("signal.name=contrastive", "policy.batch=32"))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            ["stream.scenario=split", "stream.tasks=2", "model.heads=shared"],
            "set model.heads to masked .* seen .* or all",
        ),
        (["model.heads=seen"], "model.heads = 'seen' is for tasks of different classes"),
        (["evaluation.task=both"], "evaluation.task = 'both' is for tasks of different classes"),
    ],
)
def test_heads_that_do_not_fit_the_classes(changes: list[str], sentence: str) -> None:
    found = setting(*changes)
    with pytest.raises(GradcastError, match=sentence):
        check(found, stream(found))


def test_learners_with_heads_of_their_own_need_tasks_of_one_size() -> None:
    found = load("digits", ["learner.name=hat", "model.name=alexnet-like", "stream.size=12"]).rows[0].setting
    with pytest.raises(GradcastError, match=r"'hat' makes heads of one size.*choose another learner"):
        check(found, uneven_stream())


@pytest.mark.parametrize("learner", ["ewc", "mas", "lwf", "icarl", "icarl-original", "bic", "lucir", "cfa", "x-der"])
def test_what_past_tasks_need_is_kept_where_there_are_any(learner: str) -> None:
    found = setting(f"learner.name={learner}", "model.norm=none", "stream.tasks=1", "model.heads=masked")
    with pytest.raises(GradcastError, match=f"'{learner}' keeps what past tasks need, and in a stream of one task"):
        check(found, stream(found))


@pytest.mark.parametrize("learner", ["er", "er-ace", "der", "der-plus-plus"])
def test_a_reservoir_holds_at_least_what_is_replayed(learner: str) -> None:
    few = setting(f"learner.name={learner}", "learner.memory=2", "learner.replay=21")
    with pytest.raises(GradcastError, match=r"room for 20 samples in all, fewer than learner.replay = 21"):
        check(few, stream(few))
    enough = setting(f"learner.name={learner}", "learner.memory=2", "learner.replay=20")
    check(enough, stream(enough))
