from pathlib import Path

import pytest

from gradcast.errors import GradcastError
from gradcast.reproduce import reproduce
from gradcast.reproduce.missing_data import check_data, needed
from gradcast.reproduce.reproduce import request, train
from tests.data.images import tiny_imagenet
from tests.reproduce.scene import TEXT, experiment


def test_a_table_without_any_data_is_refused_in_one_sentence(tmp_path: Path) -> None:
    wanted = request("E3", out=tmp_path / "runs", rows=["resnet-gem-predicted"])
    with pytest.raises(GradcastError) as refused:
        check_data(wanted, tmp_path / "data")
    assert str(refused.value) == (
        f"E3 needs cifar-100 and tiny-imagenet, which are not in {tmp_path / 'data'}: run 'gradcast data fetch "
        "cifar-100', run 'gradcast data fetch tiny-imagenet', then pass --data DIR or set GRADCAST_DATA=DIR"
    )


def test_what_cannot_be_fetched_is_said_to_come_by_hand(tmp_path: Path) -> None:
    settings = ["stream.source=digits", "stream.classes_per_task=2", "stream.tasks=2", "stream.samples=20"]
    wanted = request("E7", out=tmp_path, rows=["coco"], settings=[*settings, "model.name=mlp", "pool.name=coco"])
    (told,) = check_data(wanted, tmp_path)
    assert told.startswith(
        f"E7 needs coco, which is not in {tmp_path}: fetch coco by hand from https://cocodataset.org"
    )


def test_rows_that_lack_their_pool_are_named_where_others_can_be_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    poor = TEXT.replace("signal.alpha = 0.5", 'signal.alpha = 0.5\npool.name = "cub"')
    monkeypatch.setattr(reproduce, "load", lambda _: experiment(poor))
    wanted = request("T1", out=tmp_path, rows=["predicted"], seeds=1)
    (told,) = check_data(wanted, tmp_path)
    assert told.startswith("T1 needs cub, which is not in ")
    assert told.endswith("; until then these rows fail: 'GEM + predicted'")
    assert check_data(request("T1", out=tmp_path, rows=["gem"], seeds=1), tmp_path) == []


def test_what_is_trained_needs_no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = TEXT.replace("signal.alpha = 0.5", 'signal.alpha = 0.5\npool.name = "tiny-imagenet"')
    monkeypatch.setattr(reproduce, "load", lambda _: experiment(own))
    tiny_imagenet(tmp_path / "data", each=2)
    wanted = request("T1", out=tmp_path / "runs", rows=["predicted"], seeds=1)
    assert check_data(wanted, tmp_path / "data") == []
    assert train(wanted, data=tmp_path / "data", device="cpu", display=None) == {}
    assert check_data(wanted, tmp_path / "nothing") == []


def test_rows_need_the_pools_that_they_use(tmp_path: Path) -> None:
    rows = {item.name: item.setting for item in request("E3", out=tmp_path).items()}
    base, predicted = rows["resnet-gem"], rows["resnet-gem-predicted"]
    assert base is not None
    assert predicted is not None
    assert needed(base) == ["cifar-100"]
    assert needed(predicted) == ["cifar-100", "tiny-imagenet"]
