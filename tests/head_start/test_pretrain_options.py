from pathlib import Path
from typing import Any

import pytest

from gradcast.data.cache import Cache
from gradcast.data.load import Shelf, untracked
from gradcast.errors import Diverged, GradcastError
from gradcast.head_start.pretrain_options import (
    NAMED_NETWORKS,
    NAMED_POOLS,
    PretrainOptions,
    model_table,
    own_words,
    pool_table,
)
from gradcast.specs.spec import Setting


def setting(*settings: str) -> Setting:
    return PretrainOptions(10, 4, 16, "rgb", "unit", settings).setting({"name": "patches"}, {"name": "slim-resnet18"})


def test_options_and_settings_are_tables_of_a_specification() -> None:
    found = setting("model.width=8", "head_start.lr=0.1", "head_start.signal=vicreg", "pool.count=50")
    assert (found.stream.size, found.stream.colour, found.stream.normalise) == (16, "rgb", "unit")
    assert found.model.model_dump()["width"] == 8
    assert (found.head_start.steps, found.head_start.batch, found.head_start.lr) == (10, 4, 0.1)
    assert [own.name for own in found.head_start.signal] == ["vicreg"]
    assert found.pool[0].model_dump()["count"] == 50


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("head_start.steps=3", "--set head_start.steps has an option of its own: use --steps"),
        ("stream.size=3", "--set stream.size has an option of its own: use --size"),
        ("model.path=a:B", "use --model"),
        ("head_start.probes=3", "there are no labels to look at the features with; leave it out"),
        ("head_start.shared=true", "here there is one seed"),
        ("model.heads=masked", "here there are no tasks"),
        ("learner.lr=1", "is no setting of a head start alone; give keys of model, head_start, pool"),
        ("seeds=[1]", "is no setting of a head start alone"),
        ("head_start.lrr=1", "did you mean 'head_start.lr'?"),
        ("head_start.signal=distil", "needs labels or labelled gradients"),
        ("model.wdth=1", "did you mean 'model.width'?"),
        ("nonsense", "is no setting of a head start alone"),
        ("head_start.lr", "is not KEY=VALUE"),
    ],
)
def test_keys_that_are_wrong_here(key: str, message: str) -> None:
    with pytest.raises(GradcastError) as caught, own_words():
        setting(key)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": 0}, "--steps 0 trains nothing; give 1 or more"),
        ({"steps": -1}, "--steps = -1 is not valid"),
        ({"batch": 1}, "set --batch to 2 or more"),
        ({"size": 0}, "--size = 0 is not valid"),
        ({"colour": "own"}, "--colour own needs labelled images; choose rgb or grey"),
        ({"normalise": "standard"}, "--normalise standard needs labelled images; choose unit or cifar or imagenet"),
        ({"colour": "grey", "normalise": "cifar"}, "--normalise cifar is for colour images; set --normalise unit"),
    ],
)
def test_options_that_are_wrong(changes: dict[str, Any], message: str) -> None:
    options = PretrainOptions(10, 4, 16, "rgb", "unit")
    for name, value in changes.items():
        object.__setattr__(options, name, value)  # as a caller without types would
    with pytest.raises(GradcastError) as caught, own_words():
        options.setting({"name": "patches"}, {"name": "slim-resnet18"})
    assert message in str(caught.value)


def test_a_network_that_is_there_has_no_settings() -> None:
    options = PretrainOptions(10, 4, 16, "rgb", "unit", ("model.width=3",))
    with pytest.raises(GradcastError, match="build your own network with the settings it needs"):
        options.setting({"name": "patches"}, None)
    assert PretrainOptions(10, 4, 16, "rgb", "unit").setting({"name": "patches"}, None).head_start.steps == 10


def test_pools_by_name_and_by_place(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, Cache(tmp_path / "cache"), untracked)
    (tmp_path / "photos").mkdir()
    assert pool_table("patches", shelf) == {"name": "patches"}
    assert {"tiny-imagenet", "coco", "pixels", "grey"} <= set(NAMED_POOLS)
    assert pool_table("photos", shelf) == {"name": "folder", "path": str(tmp_path / "photos")}
    for wrong, message in (
        ("cocco", "set --pool to your images, or name a pool; did you mean 'coco'?"),
        ("held-out", "images of a labelled stream"),
        ("python", "there is nothing at python"),
    ):
        with pytest.raises(GradcastError) as caught:
            pool_table(wrong, shelf)
        assert message in str(caught.value)


def test_networks_by_name_and_by_import_path() -> None:
    assert model_table("conv-large") == {"name": "conv-large"}
    assert model_table("nets:Net") == {"name": "python", "path": "nets:Net"}
    assert "python" not in NAMED_NETWORKS
    for wrong in ("slimresnet18", "python"):
        with pytest.raises(GradcastError, match=rf"there is no network '{wrong}'.*--model module:Class"):
            model_table(wrong)


def test_sentences_name_options_and_stay_of_their_kind() -> None:
    with pytest.raises(Diverged, match=r"^set --size or --model=mlp, and head_start\.lr$"), own_words():
        raise Diverged("set stream.size or model.name=mlp, and head_start.lr")
