"""The settings of a table as a person reads them: name, type, default, meaning."""

import inspect
import re
from dataclasses import dataclass
from functools import cache

from pydantic_core import PydanticUndefined

from gradcast.specs.table import Table
from gradcast.specs.type_words import type_words

COMMENT = re.compile(r"^    (\w+):[^#]*?(?:#\s*(.*))?$")  # a field of a table; what it means stands behind it
DIGITS = 10  # of a number that is written as it is


@dataclass(frozen=True)
class SettingLine:
    """One key of a table."""

    name: str
    type: str  # in words
    default: str  # empty: it must be given
    meaning: str  # empty where the name says it all


def settings_of(table: type[Table]) -> list[SettingLine]:
    """Every key but ``name``, which says which table it is; meanings are the comments in the source."""
    meanings = _meanings(table)
    found = []
    for name, info in table.model_fields.items():
        if name == "name":
            continue
        default = "" if info.default is PydanticUndefined else _written(info.default)
        found.append(SettingLine(name, type_words(info.annotation, info.metadata), default, meanings.get(name, "")))
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
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and len(str(value)) > DIGITS:
        return f"about {value:.3g}"
    return str(value) or '""'
