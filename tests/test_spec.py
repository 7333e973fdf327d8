from typing import get_args

import pytest
from pydantic import ValidationError

from gradcast.augment import AUGMENTATIONS
from gradcast.data.catalogue import CATALOGUE
from gradcast.signals.policy import Policy
from gradcast.spec import CHOICES, AugmentationName, PoolName, Row, Setting, SourceName, Spec
from gradcast.specfile import load, presets
from gradcast.streams.pool import TRANSFORMS, TransformName


def row(name: str = "base") -> Row:
    return Row(name=name, label=name, setting=Setting())


def test_choices_name_every_class_by_its_own_name() -> None:
    for choices in CHOICES.values():
        for name, model in choices.items():
            annotation = model.model_fields["name"].annotation
            assert name in getattr(annotation, "__args__", ())


@pytest.mark.parametrize(("rows", "seeds"), [([row(), row()], [0]), ([row()], [1, 1])])
def test_rows_and_seeds_are_distinct(rows: list[Row], seeds: list[int]) -> None:
    with pytest.raises(ValidationError, match="appears 2 times"):
        Spec(name="x", rows=rows, seeds=seeds)


@pytest.mark.parametrize("name", ["../up", "a/b", "", "UPPER", ".hidden"])
def test_names_that_become_directories_are_plain(name: str) -> None:
    with pytest.raises(ValidationError):
        Spec(name=name, rows=[row()])
    with pytest.raises(ValidationError):
        Row(name=name, label="x", setting=Setting())


@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan")])
def test_probability(p: float) -> None:
    with pytest.raises(ValidationError):
        Policy(p=p)


def test_labels_say_learner_and_signal() -> None:
    labels = [row.label for row in load("mnist-p", ["learner.name=dcl"]).rows]
    assert labels == ["DCL", "DCL + predicted gradients", "DCL + random directions"]
    best = [row.label for row in load("mnist-p-best").rows]
    assert best == ["GEM", "GEM + averaged weights", "GEM + contrastive + averaged weights"]


BEST = {f"{name}-best" for name in ("icifar100-resnet-er", "icifar100-resnet-gem", "mnist-r", "mnist-p")}
IMAGES = [f"icifar100-{name}" for name in ("resnet-gem", "resnet-dcl", "effnet-gem", "effnet-dcl", "effnetlite-gem")]


def test_presets_exist() -> None:
    assert set(presets()) == {"digits", "mnist-r", "mnist-p", *IMAGES, *BEST}


def test_every_labelled_dataset_is_a_source_and_every_dataset_a_pool() -> None:
    labelled = {name for name, dataset in CATALOGUE.items() if dataset.labelled}
    assert set(get_args(SourceName)) == labelled | {"digits", "folder", "npz", "python"}
    assert set(get_args(PoolName)) == set(CATALOGUE) | {"digits"}
    assert set(get_args(AugmentationName)) == set(AUGMENTATIONS)
    assert set(get_args(TransformName)) == set(TRANSFORMS)
