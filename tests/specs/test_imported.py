import sys
from pathlib import Path
from typing import Literal

import pytest
from pydantic import ConfigDict

from gradcast.core import Learner
from gradcast.errors import GradcastError
from gradcast.learners.finetune import Finetune
from gradcast.specs.imported import build_imported, find, source_file
from gradcast.specs.table import Table


class Mine(Learner):
    """With an argument of its own."""

    def __init__(self, strength: float = 0.5) -> None:
        if strength < 0:
            raise ValueError("strength is negative")
        self.strength = strength


class Knowing(Learner):
    """Wants to know what it is made for."""

    def __init__(self, context: object, size: int) -> None:
        self.context, self.size = context, size


class Refusing(Learner):
    def __init__(self) -> None:
        raise GradcastError("not today")


class Imported(Table):
    model_config = ConfigDict(extra="allow")
    name: Literal["python"] = "python"
    path: str


def made(name: str, **keys: object) -> object:
    table = Imported.model_validate({"path": f"{__name__}:{name}", **keys})
    return build_imported(table, "the context", Learner, "learner")  # type: ignore[type-abstract]


def test_a_class_is_made_of_the_further_keys_and_the_context_where_it_asks_for_it() -> None:
    plain, knowing = made("Mine", strength=0.25), made("Knowing", size=3)
    assert isinstance(plain, Mine)
    assert plain.strength == 0.25
    assert isinstance(knowing, Knowing)
    assert (knowing.context, knowing.size) == ("the context", 3)


@pytest.mark.parametrize(
    ("name", "keys", "words"),
    [
        ("Mine", {"strong": 1}, r"cannot be made with strong .*further keys of \[learner\] are its keyword arguments"),
        ("Mine", {"strength": -1}, "ValueError: strength is negative"),
        ("Knowing", {}, "cannot be made with context"),
        ("Imported", {}, r"does not derive from gradcast\.Learner; let it do so"),
        ("made", {}, r"does not derive from gradcast\.Learner"),
        ("Refusing", {}, "^not today$"),
        ("Nothing", {}, "cannot be imported"),
        ("PATHS", {}, "is not a class or function"),
    ],
)
def test_what_cannot_be_made_is_said(name: str, keys: dict[str, object], words: str) -> None:
    with pytest.raises(GradcastError, match=words):
        made(name, **keys)


PATHS = ["mine", "mine:", ":Mine", ""]


@pytest.mark.parametrize("path", PATHS)
def test_a_path_names_module_and_class(path: str) -> None:
    with pytest.raises(GradcastError, match=r"learner\.path = .* is not 'package.module:Name'"):
        find(path, "learner.path")


def test_the_working_folder_is_looked_through_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_own_methods.py").write_text("class Outer:\n    class Inner: ...\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    found = find("my_own_methods:Outer.Inner", "learner.path")
    assert found.__name__ == "Inner"
    assert source_file("my_own_methods:Outer.Inner", "learner.path") == tmp_path / "my_own_methods.py"
    del sys.modules["my_own_methods"]


def test_a_module_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_broken_methods.py").write_text("1 / 0\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(GradcastError, match=r"ZeroDivisionError: division by zero\); check it, or run where my_broken"):
        find("my_broken_methods:Mine", "signal.path")


def test_the_source_of_built_in_things_is_nobodys() -> None:
    assert source_file("builtins:dict", "learner.path") is None
    found = source_file("gradcast.learners.finetune:Finetune", "learner.path")
    assert found is not None
    assert found.name == "finetune.py"
    assert find("gradcast.learners.finetune:Finetune", "learner.path") is Finetune
