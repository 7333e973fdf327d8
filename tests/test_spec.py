import pytest
from pydantic import ValidationError

from gradcast.spec import CHOICES, PolicySpec, Row, Setting, Spec
from gradcast.specfile import presets


def row(name: str = "base") -> Row:
    return Row(name=name, label=name, setting=Setting())


def test_choices_name_every_class_by_its_own_name() -> None:
    for choices in CHOICES.values():
        for name, model in choices.items():
            annotation = model.model_fields["name"].annotation
            assert getattr(annotation, "__args__", None) == (name,)


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
        PolicySpec(p=p)


def test_policy_carries_every_field() -> None:
    spec = PolicySpec(p=0.4, start=7, batch=3, update="sequential", project=False, batchnorm="frozen")
    assert vars(spec.policy()) == spec.model_dump()


def test_presets_exist() -> None:
    assert set(presets()) == {"digits", "mnist-r", "mnist-p"}
