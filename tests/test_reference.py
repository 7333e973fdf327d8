"""The reference has every setting, command and public name, as the code has them."""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools import render_commands, render_settings

import gradcast
from gradcast.learners.registry import LEARNERS
from gradcast.reproduce import experiment_tables
from gradcast.signals.registry import SIGNALS
from gradcast.specs.settings_list import settings_of
from gradcast.specs.spec import Row, Setting, Spec
from gradcast.specs.table import Table

ROOT = Path(__file__).parents[1]
SETTINGS = render_settings.REFERENCE.read_text(encoding="utf-8")
PAGES = render_settings.pages()
KEPT_APART = ("jit", "__main__", "simulate")  # modules that compile, or run, when they are imported


def tables(base: type[Table] = Table) -> Iterator[type[Table]]:
    """Tables of the package that no other is made of."""
    for own in base.__subclasses__():
        if own.__subclasses__():
            yield from tables(own)
        elif own.__module__.startswith("gradcast."):
            yield own


def test_every_setting_that_exists_is_in_the_reference() -> None:
    for module in pkgutil.walk_packages(gradcast.__path__, "gradcast."):
        if not any(word in module.name for word in KEPT_APART):
            importlib.import_module(module.name)
    methods = {entry.table for registry in (LEARNERS, SIGNALS) for entry in registry.values()}
    text = SETTINGS + "".join(page.read_text(encoding="utf-8") for page in PAGES)
    found = [own for own in tables() if own.__module__ != experiment_tables.__name__]  # tables of the package's files
    assert len(found) > 60
    for own in set(found) - {Spec, Row, Setting}:
        for line in settings_of(own):
            assert f"| `{line.name}` | {line.type} |" in text, f"{own.__name__}.{line.name}"
    assert methods <= set(found)


def test_the_reference_of_settings_is_that_of_the_code() -> None:
    assert render_settings.reference() == SETTINGS, "run python tools/render_settings.py"
    for table in (Spec, Row, Setting):
        keys = set(table.model_fields) - {"rows", "setting"}
        assert [key for key in keys if f"| `{key}` |" not in SETTINGS] == []


def test_no_setting_is_without_a_meaning() -> None:
    assert re.findall(r"^\|.*\|\s+\|$", SETTINGS, flags=re.MULTILINE) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}-{page.stem}")
def test_a_methods_page_ends_with_the_settings_of_the_code(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text.endswith(render_settings.rendered(*PAGES[page])), "run python tools/render_settings.py"
    assert "|  |\n" not in text, "a setting without a meaning"


def test_every_learner_and_every_signal_has_a_page() -> None:
    for kind, known in (("learner", LEARNERS.own), ("signal", SIGNALS.own)):
        named = {name for of, names in PAGES.values() if of == kind for name in names}
        assert named == known - {"python", "none"}
    assert all(page.is_file() for page in PAGES)


def test_the_reference_of_commands_is_that_of_the_code() -> None:
    text = render_commands.REFERENCE.read_text(encoding="utf-8")
    assert render_commands.reference() == text, "run python tools/render_commands.py"
    found = dict(render_commands.commands())
    assert {"run", "data fetch", "runs merge"} <= found.keys()
    for name, command in found.items():
        section = text.partition(f"## gradcast {name}\n")[2].partition("\n## ")[0]
        for own in command.params:
            assert own.help, f"gradcast {name}: {own.name} has no help"
            assert all(f"`{option}`" in section for option in own.opts if option.startswith("-"))


def test_every_public_name_is_in_the_reference_of_python() -> None:
    text = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
    named = re.findall(r"^::: gradcast\.(\w+)$", text, flags=re.MULTILINE)
    assert sorted(named) == sorted(set(gradcast.__all__) - {"__version__"})
