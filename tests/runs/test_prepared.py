import io
from pathlib import Path

import pytest
import torch
from rich.console import Console

from gradcast.cli.console import ProgressDisplay
from gradcast.data.cache import Cache
from gradcast.data.load import Shelf, untracked
from gradcast.devices import Place
from gradcast.errors import GradcastError
from gradcast.head_start.course import Course
from gradcast.head_start.store import HeadStart
from gradcast.runs import prepared
from gradcast.runs.prepared import PreparedRun
from gradcast.specs.text import parse
from tests.data.images import fill
from tests.helpers import CPU
from tests.trained_runs import small


def test_rows_share_what_is_the_same_and_only_that() -> None:
    shared = PreparedRun(Place(CPU, torch.float32), Shelf(Path("data"), Cache(Path("cache")), untracked))
    base, predicted, random = (row.setting for row in small("row.random.pool.ratio=0.5").rows)
    assert shared.stream(base) is shared.stream(predicted)
    data = shared.data(base, [0, 1])
    assert data.stream is shared.stream(base)
    assert shared.tests(base, data) is shared.tests(predicted, shared.data(predicted, [2]))
    assert shared.pools(base) == []
    (pool,), (other,) = shared.pools(predicted), shared.pools(random)
    assert pool is shared.pools(predicted)[0]
    assert len(other) == len(pool) // 2
    assert set(shared.content(base)) == {"source"}
    assert shared.content(predicted)["pool"] != shared.content(random)["pool"]
    assert shared.content(predicted)["source"] == shared.content(base)["source"]


def test_several_pools_are_told_apart() -> None:
    shared = PreparedRun(Place(CPU, torch.float32), Shelf(Path("data"), Cache(Path("cache")), untracked))
    grey, patches = '{name = "grey", count = 20}', '{name = "patches", count = 40}'
    both = small(f"pool=[{grey}, {patches}]").rows[1].setting
    alone = small(f"pool=[{patches}]").rows[1].setting
    content = shared.content(both)
    assert set(content) == {"source", "pool", "pool 1"}
    assert content["pool 1"] == shared.content(alone)["pool"] != content["pool"]
    assert shared.pools(both)[1] is shared.pools(alone)[0]
    assert shared.pools(small(f"pool=[{grey}, {patches}]", "policy.p=0.0").rows[1].setting) == []


METHODS = """
import torch
import gradcast

class Still(gradcast.Learner):
    "Does nothing."

class Silent(gradcast.Signal):
    "Adds nothing."
    def gradient(self, model, unlabelled, task, *, statistics):
        raise NotImplementedError
"""


def test_code_of_others_is_part_of_what_a_row_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "methods_of_a_test.py"
    file.write_text(METHODS)
    shared = PreparedRun(Place(CPU, torch.float32), Shelf(Path("data"), Cache(Path("cache")), untracked))
    ours = '{name = "noise"}, {name = "python", path = "methods_of_a_test:Silent"}'
    setting = (
        parse(
            'name = "x"\nstream.samples = 20\nlearner = {name = "python", path = "methods_of_a_test:Still"}\n'
            f"signal = [{ours}]\n"
        )
        .rows[0]
        .setting
    )
    before = shared.content(setting)
    assert set(before) == {"source", "pool", "learner", "signal 1"}  # the package's own need no digest
    file.write_text(METHODS + "# changed\n")
    after = shared.content(setting)
    assert {name for name in after if after[name] != before[name]} == {"learner", "signal 1"}


def test_a_pool_smaller_than_a_batch_is_refused() -> None:
    shared = PreparedRun(Place(CPU, torch.float32), Shelf(Path("data"), Cache(Path("cache")), untracked))
    enough, few = (small(f"policy.batch={batch}", "pool.count=5").rows[1].setting for batch in (5, 6))
    (pool,) = shared.pools(enough)
    assert len(pool) == 5
    with pytest.raises(GradcastError, match="'patches' has 5 images and a batch needs 6; lower policy"):
        shared.pools(few)


AHEAD = ("head_start.steps=2", "head_start.batch=4", "row.base.head_start.steps=0")


def test_a_head_start_is_where_a_row_begins_and_others_do_not(tmp_path: Path) -> None:
    shared = PreparedRun(Place(CPU, torch.float64), Shelf(Path("data"), Cache(tmp_path), untracked))
    base, ahead, _ = (row.setting for row in small(*AHEAD).rows)
    assert shared.head_starts(base, [0]) == []
    (made,) = shared.head_starts(ahead, [3])
    assert [name for name in shared.content(ahead) if name.startswith("pool")] == ["pool"]
    plain, begun = (shared.loop(setting, [3]).trainer.model for setting in (base, ahead))
    own = begun.parameters(begun.theta) | begun.buffers
    for name, rows in (plain.parameters(plain.theta) | plain.buffers).items():
        assert torch.equal(own[name][0], made.weights[name] if name in made.weights else rows[0]), name
    assert not torch.equal(plain.theta, begun.theta)


def test_a_teacher_begins_where_the_model_does(tmp_path: Path) -> None:
    shared = PreparedRun(Place(CPU, torch.float64), Shelf(Path("data"), Cache(tmp_path), untracked))
    setting = small(*AHEAD, "signal.name=mean-teacher").rows[1].setting
    networks = shared.loop(setting, [0]).trainer.update.networks()  # type: ignore[attr-defined]
    assert torch.equal(networks[0].theta, networks[1].theta)


def test_small_pools_are_refused_for_head_starts_too(tmp_path: Path) -> None:
    shared = PreparedRun(Place(CPU, torch.float64), Shelf(Path("data"), Cache(tmp_path), untracked))
    setting = small("head_start.steps=2", "head_start.batch=40", "pool.count=30").rows[1].setting
    with pytest.raises(GradcastError, match=r"has 30 images .* needs 40; lower head_start\.batch"):
        shared.head_starts(setting, [0])


def test_head_starts_of_networks_that_begin_alike_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = PreparedRun(Place(CPU, torch.float32), Shelf(Path("data"), Cache(Path("cache")), untracked))
    seen = list[str]()

    def noted(course: Course, *given: object, **more: object) -> list[HeadStart]:
        seen.append(course.identity)
        return []

    monkeypatch.setattr(prepared, "head_starts", noted)
    for dropout in ("0.5", "0.1", "0.5"):
        network = ["model.name=conv-large", f"model.dropout={dropout}", "stream.size=16", "stream.colour=rgb"]
        spec = small(*network, "head_start.steps=2", "head_start.batch=4")
        shared.head_starts(spec.rows[0].setting, [0])
    assert seen[0] == seen[2] != seen[1]


def test_classes_of_own_folders_are_shown_before_training_and_stored(tmp_path: Path) -> None:
    for label, count in (("cat", 5), ("dog", 10)):
        fill(tmp_path / "pets" / label, count)
    text = io.StringIO()
    with ProgressDisplay(Console(file=text, width=80)) as display:
        shelf = Shelf(tmp_path, Cache(tmp_path / "cache"), untracked)
        shared = PreparedRun(Place(CPU, torch.float32), shelf, display=display)
        setting = small("stream.source=folder", "stream.path=pets", "stream.size=8", "stream.samples=5").rows[0].setting
        described = shared.stream(setting).describe()
        assert shared.stream(setting).describe() == described
    assert (
        text.getvalue().count("pets: 2 classes with images to train and to test on: cat (4 and 1), dog (8 and 2)") == 1
    )
    assert described["classes"] == ["cat", "dog"]
    assert described["images_per_class"] == {"train": [4, 8], "test": [1, 2]}


def test_sizes_of_pools_and_of_h_are_told() -> None:
    shared = PreparedRun(Place(CPU, torch.float32), Shelf(Path("data"), Cache(Path("cache")), untracked))
    base, predicted, random = (row.setting for row in small("row.random.pool.ratio=0.5").rows)
    assert shared.sizes(base) == {}
    assert shared.sizes(predicted) == {"pool_images": [40], "h_parameters": 1824}
    assert shared.sizes(random) == {"pool_images": [20]}
