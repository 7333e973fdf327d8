from dataclasses import replace
from pathlib import Path

import pytest

from gradcast.reproduce.experiment import load, names
from gradcast.reproduce.measured_tables import measured
from gradcast.reproduce.outcome import lines
from gradcast.reproduce.reproduce import Request, outcome, request
from gradcast.reproduce.table_notes import UNSURE, notes, whole_pool
from tests.reproduce.scene import trained, wanted


def told(name: str, out: Path, *rows: str) -> list[str]:
    """Of a table that nobody has run."""
    asked = request(name, out=out)
    return notes(asked, [line for line in outcome(asked, {}) if not rows or line.item.name in rows])


@pytest.mark.parametrize(
    ("name", "ours", "published"),
    [("E1", "1,824", "1,824"), ("E2", "1,824", "1,824"), ("E3", "4,896", "4,896"), ("E11", "4,896", "")],
)
def test_published_sizes_of_h(name: str, ours: str, published: str, tmp_path: Path) -> None:
    beside = f" (published: {published})" if published else ""
    assert told(name, tmp_path) == [
        "Pool: 100,000 images of tiny-imagenet",
        f"The gradient learner h has {ours} parameters{beside}",
    ]


@pytest.mark.parametrize(
    ("name", "pool"), [("E4", "100,000 images of tiny-imagenet"), ("E5", "118,287 images of coco")]
)
def test_h_of_acl_is_not_as_large_as_published(name: str, pool: str, tmp_path: Path) -> None:
    """No usual pair of widths has 1,427 parameters; the released code has biases."""
    first, h = told(name, tmp_path)
    assert first == f"Pool: {pool}"
    assert h.startswith("The gradient learner h has 5,061 parameters; 4,896 parameters in 'ACL + predicted, h an MLP")
    assert h.endswith(" (published: 1,427)")


def test_shares_of_the_pool_are_counted(tmp_path: Path) -> None:
    (pool, _) = told("E10", tmp_path, "none", "predicted-pool-0.2", "predicted-pool-1", "predicted-p-0.2")
    assert pool == (
        "Pool: 100,000 images of tiny-imagenet; 20,000 images of tiny-imagenet in 'predicted, share of the pool 0.2'"
    )
    assert told("E9", tmp_path)[0] == "Pool: 20,000 images of tiny-imagenet"


def test_pools_of_different_rows_are_told_apart(tmp_path: Path) -> None:
    (pool, _) = told("E7", tmp_path, "none", "tiny-imagenet", "coco", "cub", "aircraft", "cars")
    for part in ("100,000 images of tiny-imagenet", "118,287 images of coco", "5,994", "3,334", "8,144 images of cars"):
        assert part in pool


def test_images_without_a_label_are_those_of_the_task(tmp_path: Path) -> None:
    assert "72,257 images of the task itself" in told("E6", tmp_path)[0]


@pytest.mark.parametrize("name", names())
def test_every_table_and_figure_can_be_told_about(name: str, tmp_path: Path) -> None:
    own = [item.setting for item in load(name).items if item.setting is not None]
    found = told(name, tmp_path)
    assert bool(found) == any(setting.uses_signals or setting.head_start.steps for setting in own)


def test_rows_that_were_trained_say_how_many_images_there_were(tmp_path: Path) -> None:
    asked = wanted(trained())
    found = lines(asked.experiment, asked.seeds, asked.dtype, asked.cells)
    assert notes(asked, found) == ["Pool: 20 images of patches", "The gradient learner h has 1,824 parameters"]
    own = next(line.trained for line in found if line.item.name == "predicted")
    assert own is not None
    assert own.as_dict()["pool_images"] == [20]
    assert own.as_dict()["h_parameters"] == 1824


def test_files_that_do_not_say_are_not_completed() -> None:
    saved = measured("E8")
    assert saved is not None
    assert notes(saved.wanted, saved.lines)[:2] == ["Pool: up to 100,000 images of tiny-imagenet", UNSURE]
    assert f"\n\n{UNSURE}.\n" in saved.markdown()


def test_only_the_data_know_some_sizes(tmp_path: Path) -> None:
    setting = wanted(tmp_path).experiment.item("predicted").setting
    assert setting is not None
    assert whole_pool(setting.pool[0], setting) == 20
    assert whole_pool(setting.pool[0].model_copy(update={"ratio": 0.01}), setting) == 1


def test_a_table_without_pools_has_no_note(tmp_path: Path) -> None:
    asked: Request = replace(wanted(tmp_path), rows=["gem"])
    found = [line for line in outcome(asked, {}) if line.item.name in ("gem", "ewc")]
    assert notes(asked, found) == []
