"""Anybody's class, by import path: learners, signals and networks of the user's own."""

import importlib
import inspect
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from gradcast.errors import GradcastError, message_of
from gradcast.specs.table import Table

Kind = TypeVar("Kind")


def find(path: str, key: str) -> Callable[..., Any]:
    """What lies at ``package.module:Name``; the folder in which gradcast runs is looked through first."""
    module, colon, name = path.partition(":")
    if not (colon and module and name):
        raise GradcastError(f"{key} = {path!r} is not 'package.module:Name', as in 'mymodule:MyClass'")
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as error:  # noqa: BLE001 -- importing runs anybody's code
        raise GradcastError(
            f"{key} = {path!r} cannot be imported ({type(error).__name__}: {message_of(error)}); "
            f"check it, or run where {module}.py lies"
        ) from None
    if not callable(found):
        raise GradcastError(f"{key} = {path!r} is not a class or function; name what makes the object")
    make: Callable[..., Any] = found
    return make


def source_file(path: str, key: str) -> Path | None:
    """The file that it is written in, where there is one: part of a run's identity."""
    try:
        found = inspect.getsourcefile(find(path, key))
    except TypeError:  # built in
        return None
    return None if found is None else Path(found)


def build_imported(table: Table, context: object, kind: type[Kind], what: str) -> Kind:
    """The object that a table with a ``path`` names, made of the table's further keys.

    Where its class has a parameter ``context`` it is given the row's ``Context`` too.
    """
    path, key = str(getattr(table, "path", "")), f"{what}.path"
    make, given = find(path, key), dict(table.model_extra or {})
    if not (isinstance(make, type) and kind in make.__mro__):  # a protocol has no issubclass
        raise GradcastError(f"{key} = {path!r} does not derive from gradcast.{kind.__name__}; let it do so")
    try:
        if "context" in inspect.signature(make).parameters:
            given["context"] = context
        made: Kind = make(**given)
        return made
    except GradcastError:
        raise
    except Exception as error:  # noqa: BLE001 -- anybody's code may raise anything
        raise GradcastError(
            f"{path} cannot be made with {', '.join(given) or 'no arguments'} ({type(error).__name__}: "
            f"{message_of(error)}); the further keys of [{what}] are its keyword arguments"
        ) from None
