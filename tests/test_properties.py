"""What is written is read back, whatever it is: specifications, steps, accuracies."""

import math
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import annotated_types
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from gradcast.errors import GradcastError
from gradcast.results.measures import measure
from gradcast.runs.directory import RunDirectory
from gradcast.runs.recorder import Recorder
from gradcast.specs.compatibility import contradiction
from gradcast.specs.spec import CHOICES, Setting, Spec, StreamSpec
from gradcast.specs.table import Table
from gradcast.specs.text import TABLES, dump, parse

UNHURRIED = [HealthCheck.too_slow, HealthCheck.filter_too_much]  # many drawn tables do not go together
PLAIN = settings(max_examples=60, deadline=None, suppress_health_check=UNHURRIED)
WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Zl", "Zp"]), max_size=12)
NAMES = st.from_regex(r"[a-z0-9][a-z0-9_-]{0,8}", fullmatch=True)


def values(annotation: Any, rules: tuple[Any, ...] = ()) -> st.SearchStrategy[Any]:
    """Anything that a field of this type may hold."""
    kind, inside = get_origin(annotation), get_args(annotation)
    if kind is Annotated:
        nested = [own for rule in inside[1:] for own in (rule.metadata if isinstance(rule, FieldInfo) else [rule])]
        return values(inside[0], (*rules, *nested))
    if kind is Literal:
        return st.sampled_from(inside)
    if kind in (Union, UnionType):
        return st.one_of([values(own, rules) for own in inside])
    if kind is list:
        least = max((rule.min_length for rule in rules if isinstance(rule, annotated_types.MinLen)), default=0)
        return st.lists(values(inside[0]), min_size=least, max_size=3)
    if kind is dict:
        return st.dictionaries(WORDS, values(inside[1]), max_size=2)
    if isinstance(annotation, type) and issubclass(annotation, Table):
        return table(annotation)
    return _simple(annotation, rules)


def _simple(annotation: Any, rules: tuple[Any, ...]) -> st.SearchStrategy[Any]:
    low = next((rule.ge for rule in rules if isinstance(rule, annotated_types.Ge)), None)
    above = next((rule.gt for rule in rules if isinstance(rule, annotated_types.Gt)), None)
    high = next((rule.le for rule in rules if isinstance(rule, annotated_types.Le)), None)
    if annotation is float:
        low = above if low is None else low
        return st.floats(low, high, exclude_min=above is not None, allow_nan=False, allow_infinity=False)
    if annotation is int:
        return st.integers(-(2**40) if low is None else low, 2**40 if high is None else high)
    return {bool: st.booleans(), str: WORDS}[annotation]


def table(model: type[Table]) -> st.SearchStrategy[dict[str, Any]]:
    """Some of its keys, and those it cannot do without."""
    fields = {key: values(field.annotation, tuple(field.metadata)) for key, field in model.model_fields.items()}
    needed = {key: fields[key] for key, field in model.model_fields.items() if field.is_required() or key == "name"}
    return st.fixed_dictionaries(needed, optional={key: fields[key] for key in fields if key not in needed})


def possible(stream: dict[str, Any]) -> dict[str, Any]:
    """Keys that belong together."""
    own = dict(stream)
    if own.get("source") in ("folder", "npz"):
        own["path"] = own.get("path") or "here"
    else:
        own.pop("path", None)
    if own.get("scenario") != "split":
        own.pop("classes_per_task", None)
        own.pop("class_order", None)
    return own


OPTIONAL = Setting.omitted_defaults  # tables with which few others go together
SETTINGS = st.fixed_dictionaries(
    {"stream": table(StreamSpec).map(possible)},
    optional={key: values(Setting.model_fields[key].annotation) for key in TABLES if key not in ("stream", *OPTIONAL)},
)


@st.composite
def specs(draw: st.DrawFn) -> Spec:
    names = draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))
    rows = [{"name": name, "label": draw(WORDS), "setting": draw(SETTINGS)} for name in names]
    seeds = draw(st.lists(st.integers(0, 2**40), min_size=1, max_size=4, unique=True))
    try:
        return Spec.model_validate({"name": draw(NAMES), "title": draw(WORDS), "seeds": seeds, "rows": rows})
    except ValidationError:  # tables that do not go together
        assume(False)
        raise


@PLAIN
@given(specs())
def test_a_specification_is_read_back_as_it_was_written(spec: Spec) -> None:
    assume(all(contradiction(row.setting) is None for row in spec.rows))  # others are refused when they are read
    text = dump(spec)
    assert parse(tomllib.loads(text)) == spec
    assert dump(parse(tomllib.loads(text))) == text


@PLAIN
@given(st.sampled_from(TABLES), st.from_regex("[a-z]{3,9}", fullmatch=True))
def test_an_unknown_key_is_named(table_name: str, key: str) -> None:
    field = Setting.model_fields[table_name].annotation
    options = list(CHOICES.get(table_name, {}).values()) or [field]
    assume(not any(key in getattr(option, "model_fields", ()) for option in options))
    with pytest.raises(GradcastError, match=rf"unknown key '{table_name}\.{key}'"):
        parse({"name": "a", table_name: {key: 1}})


@PLAIN
@given(
    st.sampled_from(["stream.tasks", "stream.ratio", "stream.scenario", "policy.p", "model.hidden", "learner.memory"]),
    st.sampled_from([None, True, "x", -1, {"a": 1}, [None], math.nan, math.inf]),
)
def test_a_value_of_the_wrong_kind_names_its_key(key: str, value: object) -> None:
    table_name, word = key.split(".")
    with pytest.raises(GradcastError, match=rf"^{table_name}\.{word} = "):
        parse({"name": "a", table_name: {word: value}})


NUMBERS = st.floats(width=32) | st.sampled_from([math.inf, -math.inf, math.nan])


def shown(number: float) -> float | str:
    """Nine digits, or a word."""
    return float(np.format_float_scientific(number, 8)) if math.isfinite(number) else str(number)


@PLAIN
@given(
    st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS), min_size=1, max_size=6),
    arrays(np.float64, (2, 3, 2), elements=st.floats(0, 1)),
)
def test_steps_and_accuracies_are_read_back(steps: list[tuple[float, float, float]], accuracy: np.ndarray) -> None:
    with TemporaryDirectory() as folder:
        directory = RunDirectory(Path(folder))
        directory.start("base", [3, 8])
        recorder = Recorder(directory, "base", [3, 8])
        for index, (first, second, extra) in enumerate(steps):
            metrics = {"loss": torch.tensor([first, second], dtype=torch.float64)}
            recorder.stepped(index, index % 2, metrics | {"extra": torch.tensor([extra, 0.5], dtype=torch.float64)})
        for done in range(3):
            recorder.evaluated(done, torch.from_numpy(accuracy[:, done]))
        lines = directory.metrics("base", 3, 2)
        assert [line["loss"] for line in lines] == [shown(first) for first, _, _ in steps]
        assert [line.get("extra", "nan") for line in lines] == [shown(extra) for _, _, extra in steps]
        assert [line["loss"] for line in directory.metrics("base", 8, 2)] == [shown(second) for _, second, _ in steps]
        assert [(line["step"], line["task"]) for line in lines] == [(index, index % 2) for index in range(len(steps))]
        for place, seed in enumerate((3, 8)):
            assert np.array_equal(directory.accuracy("base", seed, 2), accuracy[place])


@PLAIN
@given(st.integers(1, 6).flatmap(lambda tasks: arrays(np.float64, (tasks + 1, tasks), elements=st.floats(0, 1))))
def test_measures_against_sums_spelled_out(matrix: np.ndarray) -> None:
    """R[i][j] is the accuracy on task j after i tasks, as the papers count them, from one."""
    tasks = matrix.shape[1]
    r = {(i, j + 1): float(matrix[i, j]) for i in range(tasks + 1) for j in range(tasks)}
    found = measure(matrix)
    assert found.acc == pytest.approx(sum(r[tasks, j] for j in range(1, tasks + 1)) / tasks)
    backward = sum(r[tasks, j] - r[j, j] for j in range(1, tasks))
    forward = sum(r[j - 1, j] - r[0, j] for j in range(2, tasks + 1))
    assert found.bwt == pytest.approx(backward / max(tasks - 1, 1), abs=1e-12)
    assert found.fwt == pytest.approx(forward / max(tasks - 1, 1), abs=1e-12)
    assert (found.bwt_ref, found.fwt_ref) == pytest.approx((backward / tasks, forward / tasks), abs=1e-12)
