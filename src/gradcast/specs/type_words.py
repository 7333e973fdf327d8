"""The type of a setting in words: what may stand behind its equals sign."""

from collections.abc import Iterator, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic.fields import FieldInfo

from gradcast.specs.table import Table

PLAIN = {bool: "true or false", int: "whole number", float: "number", str: "text"}


def type_words(annotation: object, metadata: Sequence[object] = ()) -> str:
    """``Annotated[int, Field(ge=1)]`` is a whole number ≥ 1; ``metadata`` are bounds that stand beside it."""
    found = list(dict.fromkeys(_choices(annotation, metadata)))
    return " or ".join([", ".join(found[:-1]), found[-1]] if len(found) > 1 else found)


def _choices(annotation: object, metadata: Sequence[object]) -> Iterator[str]:
    """What it may be, one by one; a missing value (None) is none of them."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        yield from _choices(arguments[0], [*metadata, *arguments[1:]])
    elif origin is Literal:
        yield from (f'"{own}"' if isinstance(own, str) else str(own) for own in arguments)
    elif origin in (Union, UnionType):
        for own in arguments:
            yield from _choices(own, ()) if own is not NoneType else ()
    elif origin is list:
        yield f"list of {_several(type_words(arguments[0]))}"
    elif origin is dict:
        yield f"table of {_several(type_words(arguments[1]))}"
    elif isinstance(annotation, type) and issubclass(annotation, Table):
        yield "table"
    else:
        word = next((PLAIN[own] for own in PLAIN if annotation is own), "any value")
        yield f"{word}{_bounds(list(_flat(metadata)))}"


def _several(words: str) -> str:
    """The plural of a plain type; bounds stay behind it."""
    for word in ("whole number", "number", "table"):
        if words.startswith(word):
            return f"{word}s{words.removeprefix(word)}"
    return words


def _flat(metadata: Sequence[object]) -> Iterator[object]:
    for own in metadata:
        yield from own.metadata if isinstance(own, FieldInfo) else [own]


def _bounds(metadata: list[Any]) -> str:
    """`` from 0 to 1`` where both ends belong to it, else a comparison for each end."""
    at_least = [_number(own.ge) for own in metadata if isinstance(own, Ge)]
    at_most = [_number(own.le) for own in metadata if isinstance(own, Le)]
    if at_least and at_most:
        return f" from {at_least[0]} to {at_most[0]}"
    above = [f"> {_number(own.gt)}" for own in metadata if isinstance(own, Gt)]
    below = [f"< {_number(own.lt)}" for own in metadata if isinstance(own, Lt)]
    found = [*(f"≥ {end}" for end in at_least), *above, *(f"≤ {end}" for end in at_most), *below]
    return f" {' and '.join(found)}" if found else ""


def _number(end: object) -> str:
    return f"{end:,}" if isinstance(end, int) else str(end)
