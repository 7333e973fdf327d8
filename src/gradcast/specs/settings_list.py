"""The settings of a table as a person reads them: name, default, meaning."""

import inspect
import re
from dataclasses import dataclass
from functools import cache

from pydantic_core import PydanticUndefined

from gradcast.specs.table import Table

COMMENT = re.compile(r"^    (\w+):[^#]*?(?:#\s*(.*))?$")  # a field of a table; what it means stands behind it


@dataclass(frozen=True)
class SettingLine:
    """One key of a table."""

    name: str
    type: str
    default: str  # empty: it must be given
    meaning: str  # empty where the name says it all


def settings_of(table: type[Table]) -> list[SettingLine]:
    """Every key but ``name``; meanings are the comments in the source."""
    meanings = _meanings(table)
    found = []
    for name, info in table.model_fields.items():
        if name == "name":
            continue
        default = "" if info.default is PydanticUndefined else _written(info.default)
        found.append(SettingLine(name, _type(info.annotation), default, meanings.get(name, "")))
    return found


@cache
def _meanings(table: type[Table]) -> dict[str, str]:
    meanings: dict[str, str] = {}
    for own in reversed([each for each in table.__mro__ if issubclass(each, Table)]):
        try:
            lines = inspect.getsource(own).splitlines()
        except (OSError, TypeError):  # made at run time, or without its source
            continue
        found = (COMMENT.match(line) for line in lines)
        meanings |= {match[1]: match[2] for match in found if match is not None and match[2]}
    return meanings


def _written(value: object) -> str:
    return {True: "true", False: "false"}.get(value, repr(value)) if isinstance(value, bool) else str(value) or '""'


def _type(annotation: object) -> str:
    text = getattr(annotation, "__name__", None) if isinstance(annotation, type) else str(annotation)
    return re.sub(r"typing\.|, (?:allow_inf_nan|strict)=\w+", "", str(text))
