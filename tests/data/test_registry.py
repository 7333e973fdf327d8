import pytest

from gradcast.data.catalogue import CATALOGUE
from gradcast.data.registry import DATASETS, OTHERS, SOURCES
from gradcast.errors import GradcastError
from gradcast.specs.text import load


def test_sources_are_labelled_datasets_and_what_is_always_there() -> None:
    labelled = {name for name, dataset in CATALOGUE.items() if dataset.labelled}
    assert CATALOGUE.keys() <= DATASETS.keys()
    assert labelled | OTHERS.keys() <= SOURCES.keys()
    assert not {name for name, dataset in CATALOGUE.items() if not dataset.labelled} & SOURCES.keys()
    assert all(SOURCES.values())


def test_a_specification_names_one_of_them() -> None:
    assert load("digits", ["stream.source=svhn"]).rows[0].setting.stream.source == "svhn"
    with pytest.raises(GradcastError, match=r"stream.source = 'coco' is unknown"):
        load("digits", ["stream.source=coco"])  # it has no labels
