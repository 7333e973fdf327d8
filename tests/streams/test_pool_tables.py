from typing import get_args

import pytest
from pydantic import TypeAdapter, ValidationError

from gradcast.data.catalogue import CATALOGUE
from gradcast.streams.pool import TRANSFORMS, TransformName
from gradcast.streams.pool_tables import POOLS, BlankSpec, DatasetPoolSpec, FolderSpec, PatchesSpec, PoolName, PoolSpec

ANY = TypeAdapter[PoolSpec](PoolSpec)


def test_every_dataset_is_a_pool_and_every_transform_can_be_named() -> None:
    assert set(get_args(PoolName)) == set(CATALOGUE) | {"digits"}
    assert set(get_args(TransformName)) == set(TRANSFORMS)


def test_names_lead_to_their_tables() -> None:
    assert ANY.validate_python({"name": "patches"}) == PatchesSpec()
    assert ANY.validate_python({"name": "folder", "path": "photos"}) == FolderSpec(name="folder", path="photos")
    for name in ("grey", "pixels"):
        assert type(ANY.validate_python({"name": name})) is POOLS[name] is BlankSpec
    for name in get_args(PoolName):
        assert type(ANY.validate_python({"name": name})) is POOLS[name] is DatasetPoolSpec


@pytest.mark.parametrize(
    "table", [{"name": "folder"}, {"name": "coco", "path": "x"}, {"name": "patches", "ratio": 0.0}]
)
def test_what_does_not_belong_there_is_refused(table: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        ANY.validate_python(table)
