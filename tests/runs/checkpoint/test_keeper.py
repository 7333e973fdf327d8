import random
import shutil
import signal
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from beartype.roar import BeartypeCallHintViolation

from gradcast.cluster.ranks import Ranks
from gradcast.errors import GradcastError, Stopped
from gradcast.learners.registry import LEARNERS
from gradcast.runs import environment
from gradcast.runs.checkpoint import file, keeper
from gradcast.runs.checkpoint.file import Content
from gradcast.runs.checkpoint.keeper import Checkpoints, Safety
from gradcast.runs.checkpoint.stop import Stop
from gradcast.signals.registry import SIGNALS
from gradcast.specs.spec import Spec
from gradcast.training.loop import Extent, Position
from tests.helpers import signal_and_pool
from tests.runs.checkpoint.crafting import crafted, put
from tests.runs.checkpoint.scene import ROW, STEPS, Scene, tiny

pytestmark = pytest.mark.usefixtures("known_passes")
EVERY_TWO = Safety(0, 2)
STEPS_OF_A_TASK = (
    "stream.samples=200",
    "stream.labels=20",
    "pool.name=unlabelled",
    "schedule.name=steps",
    "schedule.steps=8",
    "schedule.warm_up=2",
    "schedule.milestones=[6]",
    "schedule.ramp=3",
    "schedule.test_every=2",
)
VARIANTS = {
    "sequential update": ("signal.name=predicted", "policy.update=sequential"),
    "unprojected, guarded": ("signal.name=contrastive", "policy.project=false", "policy.guard=true"),
    "adam, tau per sample": (
        "signal.name=predicted",
        "signal.optimizer=adam",
        "signal.lr=0.01",
        "signal.tau=per_sample",
        "policy.batch=5",
    ),
    "tau of the batch before": ("signal.name=predicted", "signal.tau=previous", "signal.alpha=0.5"),
    "scaled controls": ("signal.name=noise", "signal.scaled=true"),
    "scaled labels": ("signal.name=soft", "signal.scaled=true", "learner.name=dcl", "learner.interval=3"),
    "BatchNorm": (
        "model.name=slim-resnet18",
        "model.width=2",
        "signal.name=one-hot",
        "stream.scenario=split",
        "stream.tasks=2",
    ),
    "dropout": ("model.name=alexnet-like", "model.latent=8", "model.widths=[12, 8, 8]", "stream.size=12"),
    "dropout of a teacher": (
        "model.name=alexnet-like",
        "model.latent=8",
        "model.widths=[12, 8, 8]",
        "stream.size=12",
        "signal.name=soft",
    ),
    "an average, and labelled images in company": (
        "model.name=slim-resnet18",
        "model.width=2",
        "learner.name=er",
        "signal.name=contrastive",
        "signal.labelled=true",
        "evaluation.average=7",
    ),
    "outputs kept from step to step": ("learner.memory=5", "stream.samples=40", "model.hidden=[32]"),
    "memories of unequal size": ("learner.memory=13", "stream.samples=7"),
    "classes of all tasks so far": (
        "stream.scenario=split",
        "stream.classes_per_task=3",
        "model.heads=seen",
        "learner.name=a-gem",
        "signal.name=predicted",
    ),
    "frozen stages": (
        "model.name=slim-resnet18",
        "model.width=2",
        "model.train=1",
        "model.rates={body = 0.5}",
        "head_start.steps=2",
        "head_start.batch=4",
        "head_start.shared=true",
        "signal.name=mean-teacher",
        "learner.momentum=0.5",
    ),
    "float64": ("dtype=float64", "learner.name=dcl"),
    "mixtures": ("signal.name=meta-gradient", "signal.mix_up=0.5"),
    "protected teacher": ("signal.name=one-hot", "signal.protected=true", "learner.name=dcl"),
    "several signals of several pools": (
        'signal=[{name = "meta-gradient", mix_up = 0.5}, {name = "noise", pool = "grey"}, {name = "soft"}]',
        'pool=[{name = "patches", count = 30, augment = ["flip"]}, {name = "grey", count = 20}]',
    ),
    "momentum in a single pass": ("signal.name=predicted", "learner.momentum=0.9", "learner.decay=0.01"),
    "steps with few labels": (*STEPS_OF_A_TASK, "signal.name=meta-gradient", "signal.mix_up=0.5", "policy.p=1.0"),
    "a teacher's steps": (*STEPS_OF_A_TASK, "signal.name=mean-teacher", "learner.momentum=0.9", "policy.p=1.0"),
    "two students' steps": (*STEPS_OF_A_TASK, "signal.name=dual-student", "learner.momentum=0.9", "policy.p=0.5"),
    "many epochs": ("schedule.epochs=4", "schedule.validation=0.2", "signal.name=predicted", "learner.momentum=0.9"),
    "averaged weights over many epochs": ("schedule.epochs=4", "schedule.validation=0.2", "evaluation.average=3"),
    "all classes seen": ("signal.name=soft", "signal.outputs=seen", "model.heads=masked", "model.hidden=[8]"),
}


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """One thread: for so small a stream more of them only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield Scene(tmp_path_factory.mktemp("rows"))
    torch.set_num_threads(threads)


PLAIN = sorted(name for name in LEARNERS.own - {"python"} if "own-network" not in LEARNERS[name].traits)


# Learners and signals keep apart what they know: each learner with two signals, each signal with two learners.
PAIRS = [
    (learner, signal)
    for learner in PLAIN
    for signal in sorted(SIGNALS.own - {"python"})
    if learner == "er" or signal == "predicted"  # what either keeps is kept whatever the other is
]


@pytest.mark.parametrize(("learner", "signal_name"), PAIRS)
def test_a_run_that_was_cut_off_ends_at_the_same_bytes(scene: Scene, learner: str, signal_name: str) -> None:
    spec = tiny(f"learner.name={learner}", *signal_and_pool(signal_name))
    whole = scene.train(spec, "whole")
    assert whole is not None
    assert {"seed-3/metrics.jsonl", "seed-5/accuracy.csv", "seed-5/weights.safetensors"} <= set(whole)
    assert scene.with_cuts(spec, "cut", random.Random(f"{learner} {signal_name}")) == whole


@pytest.mark.parametrize("name", VARIANTS)
def test_so_does_every_other_kind(scene: Scene, name: str) -> None:
    spec = tiny(*VARIANTS[name])
    whole = scene.train(spec, "whole")
    assert whole is not None
    assert scene.with_cuts(spec, "cut", random.Random(name)) == whole


def checkpoints(scene: Scene, spec: Spec, place: str) -> list[Path]:
    return file.files(scene.directory(spec, place).path / ROW)


def damage(path: Path, chance: random.Random) -> None:
    """Cut the file short, or flip one bit anywhere in it."""
    content = bytearray(path.read_bytes())
    where = chance.randrange(len(content))
    if chance.random() < 0.3:
        del content[where:]
    else:
        content[where] ^= 1 << chance.randrange(8)
    path.write_bytes(content)


@pytest.mark.parametrize("number", range(8))
def test_a_damaged_checkpoint_is_named_and_the_one_before_is_used(scene: Scene, number: int) -> None:
    spec, chance = tiny(f"learner.lr=0.{number + 1}", "signal.name=predicted"), random.Random(number)
    whole = scene.train(spec, "whole")
    assert scene.train(spec, "damaged", EVERY_TWO, cut=11) is None
    newest, older = checkpoints(scene, spec, "damaged")
    assert [path.stem for path in (newest, older)] == ["checkpoint-10", "checkpoint-8"]
    damage(newest, chance)
    with pytest.warns(UserWarning, match=r"checkpoint-10\.safetensors is damaged"):
        assert scene.train(spec, "damaged", EVERY_TWO) == whole


def test_where_none_is_intact_the_row_starts_over_and_says_so(scene: Scene) -> None:
    spec = tiny("learner.lr=0.02")
    whole = scene.train(spec, "whole")
    assert scene.train(spec, "damaged", EVERY_TWO, cut=11) is None
    for path in checkpoints(scene, spec, "damaged"):
        path.write_bytes(path.read_bytes()[:-3])
    with pytest.warns(UserWarning, match="is damaged|is intact") as told:
        assert scene.train(spec, "damaged", EVERY_TWO) == whole
    said = [str(warning.message) for warning in told]
    assert ["is damaged" in each for each in said] == [True, True, False]
    assert said[2].endswith("is intact: its seeds [3, 5] start over")


def test_checkpoints_at_task_ends_two_at_most_and_none_in_the_end(scene: Scene) -> None:
    spec = tiny("learner.lr=0.03")
    assert scene.train(spec, "ends", Safety(0), cut=STEPS - 1) is None
    assert [path.stem for path in checkpoints(scene, spec, "ends")] == ["checkpoint-12", "checkpoint-6"]
    assert scene.train(spec, "ends", Safety(0)) is not None
    row = scene.directory(spec, "ends").path / ROW
    assert sorted(path.name for path in row.iterdir()) == [
        "env.json",
        "manifest.json",
        "seed-3",
        "seed-5",
        "stream.json",
    ]


def test_fresh_starts_over(scene: Scene) -> None:
    spec = tiny("learner.lr=0.04")
    whole = scene.train(spec, "whole")
    assert scene.train(spec, "fresh", EVERY_TWO, cut=9) is None
    assert scene.train(spec, "fresh", Safety(0, None, "fresh"), cut=5) is None
    assert checkpoints(scene, spec, "fresh") == []
    assert scene.train(spec, "fresh") == whole


def test_minutes_count_on_the_clock(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, clock = tiny("learner.lr=0.05"), [0.0]

    def ticking() -> float:
        clock[0] += 21.0
        return clock[0]

    monkeypatch.setattr(time, "monotonic", ticking)
    assert scene.train(spec, "clock", Safety(1.0), cut=6) is None
    assert [path.stem for path in checkpoints(scene, spec, "clock")] == ["checkpoint-5", "checkpoint-2"]


def test_a_signal_is_answered_with_a_checkpoint_before_the_next_step(scene: Scene) -> None:
    spec, stop = tiny("learner.lr=0.06"), Stop()
    whole = scene.train(spec, "whole")
    assert scene.train(spec, "stopped", Safety(0), cut=4) is None
    stop.signal = signal.SIGTERM
    with pytest.raises(Stopped, match="stopped before step 0, checkpoint written; the same command") as stopped:
        scene.train(spec, "stopped", Safety(0), stop=stop)
    assert stopped.value.code == 143
    assert scene.train(spec, "stopped") == whole


def test_a_full_disk_is_a_warning_and_the_run_goes_on(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = tiny("learner.lr=0.07")
    whole = scene.train(spec, "whole")

    def full(*_: object) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(file, "write", full)
    with pytest.warns(UserWarning, match=r"checkpoint could not be written \(.*No space left.*the run goes on"):
        assert scene.train(spec, "full") == whole


def test_another_surrounding_is_told_and_another_format_refused(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = tiny("learner.lr=0.08")
    assert scene.train(spec, "elsewhere", EVERY_TWO, cut=5) is None
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    try:
        with pytest.warns(UserWarning, match="with another number of threads: results may differ in the last bits"):
            assert scene.train(spec, "elsewhere", EVERY_TWO, cut=5) is None
    finally:
        torch.set_num_threads(threads)
    monkeypatch.setattr(keeper, "FORMAT", 3)
    with pytest.raises(GradcastError, match=r"was written by another version of gradcast; start over with --fresh"):
        scene.train(spec, "elsewhere")


def test_crafted_checkpoints_are_refused_and_touch_nothing(scene: Scene, tmp_path: Path) -> None:
    """A hundred with digests that fit; a few are of no use, so that the row starts over."""
    spec = tiny("signal.name=predicted", "learner.lr=0.06")
    whole = scene.train(spec, "crafted")
    row, kept, mine = scene.directory(spec, "crafted").path / ROW, tmp_path / "kept", scene.out / "mine"
    shutil.rmtree(row)
    assert scene.train(spec, "crafted", Safety(0, 3), cut=10) is None
    shutil.copytree(row, kept)
    mine.write_text("mine")
    refused = 0
    for content in crafted(file.read(file.files(row)[0]), 100):
        shutil.rmtree(row)
        shutil.copytree(kept, row)
        put(row, content)
        before = set(row.parent.rglob("*"))
        try:
            with warnings.catch_warnings(action="ignore"):
                assert scene.train(spec, "crafted") == whole
        except (GradcastError, BeartypeCallHintViolation):  # the tests look at types before we do
            refused += 1
            assert set(row.parent.rglob("*")) == before
    assert refused >= 95
    assert mine.read_text() == "mine"


@pytest.mark.parametrize("position", [[1], [1, 0, 5], [9, 0, 54], [0, 99, 99], [-1, 0, 0], [0, 3, 2]])
def test_a_position_beyond_the_run_is_refused(scene: Scene, position: list[int]) -> None:
    spec = tiny("learner.lr=0.07")
    shutil.rmtree(scene.directory(spec, "position").path)
    assert scene.train(spec, "position", EVERY_TWO, cut=5) is None
    row = scene.directory(spec, "position").path / ROW
    found = file.read(file.files(row)[0])
    put(row, Content({**found.facts, "position": position}, found.tensors))
    with pytest.raises(GradcastError, match=r"the checkpoint in .* does not fit this run \(.*position"):
        scene.train(spec, "position")


def test_another_answer_to_steps_that_are_not_finite_is_refused(scene: Scene) -> None:
    spec = tiny("learner.lr=0.09")
    assert scene.train(spec, "nan", EVERY_TWO, cut=5) is None
    with pytest.raises(GradcastError, match=r"was begun with --on-nan stop; repeat that, or start over with --fresh"):
        scene.train(spec, "nan", Safety(0, 2, on_nan="skip"))
    assert scene.train(spec, "nan", EVERY_TWO) is not None


def test_changed_code_is_told(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = tiny("learner.lr=0.11")
    assert scene.train(spec, "code", EVERY_TWO, cut=5) is None
    monkeypatch.setattr(environment, "source_digest", lambda _: "other")
    with pytest.warns(UserWarning, match="with another code: results may differ in the last bits"):
        scene.train(spec, "code", EVERY_TWO)


def test_a_changed_log_is_found_before_training_goes_on(scene: Scene) -> None:
    spec = tiny("learner.lr=0.12")
    assert scene.train(spec, "log", EVERY_TWO, cut=5) is None
    log = scene.directory(spec, "log").seed(ROW, 3) / "metrics.jsonl"
    log.write_text(log.read_text().replace("loss", "lass", 1))
    with pytest.raises(GradcastError, match=r"seed-3/metrics\.jsonl is not what its checkpoint says"):
        scene.train(spec, "log", EVERY_TWO)


class Agreed(Ranks):
    """Two ranks, of which the other one says ``other``."""

    other = 0

    def largest(self, number: int) -> int:
        return max(number, Agreed.other)


@pytest.mark.parametrize("number", [0, 1])
def test_ranks_agree_when_to_save_and_stop_and_the_first_one_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    own = Checkpoints(
        tmp_path,
        Safety(0),
        Stop(),
        seeds=[0],
        parts={},
        log=NoLog(),
        facts={},
        extent=Extent((9,)),
        device=torch.device("cpu"),
        ranks=Agreed(number, 2, number, tmp_path),
    )
    assert not own.due(3)
    own.save(Position(0, 3, 3))
    monkeypatch.setattr(Agreed, "other", int(signal.SIGTERM))
    assert own.due(4)
    with pytest.raises(Stopped) as stopped:
        own.save(Position(0, 4, 4))
    assert stopped.value.signal == signal.SIGTERM
    assert len(file.files(tmp_path)) == (2 if number == 0 else 0)


class NoLog:
    files: ClassVar[list[Path]] = []


def test_another_number_of_ranks_is_told(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = tiny("learner.lr=0.13")
    assert scene.train(spec, "ranks", EVERY_TWO, cut=5) is None
    before = environment.describe
    monkeypatch.setattr(environment, "describe", lambda device, ranks=None: {**before(device), "ranks": 2})
    with pytest.warns(UserWarning, match="with another number of ranks: results may differ in the last bits"):
        scene.train(spec, "ranks", EVERY_TWO)
