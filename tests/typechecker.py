"""The run-time checker of all tests: an int may stand where a float is asked for, as everywhere in Python."""

from collections.abc import Callable
from functools import partial
from typing import Any, get_args

from beartype import BeartypeConf, beartype
from jaxtyping import AbstractArray, jaxtyped

check = beartype(conf=BeartypeConf(is_pep484_tower=True))


def checked(thing: Any = None, *, typechecker: Callable[..., Any]) -> Any:
    """As jaxtyping's decorator, which checks every argument twice and in Python, but only where a shape is named.

    Functions without shapes have nothing to compare between arguments: their types are checked by the checker alone.
    """
    if thing is None:
        return partial(checked, typechecker=typechecker)
    if isinstance(thing, type) or any(map(shaped, getattr(thing, "__annotations__", {"?": "?"}).values())):
        return jaxtyped(thing, typechecker=typechecker)
    return check(thing)


def shaped(hint: Any) -> bool:
    """Whether a type names the shape of an array; what is a mere name yet may well do so."""
    if isinstance(hint, str) or (isinstance(hint, type) and issubclass(hint, AbstractArray)):
        return True
    return any(map(shaped, hint if isinstance(hint, list) else get_args(hint)))
