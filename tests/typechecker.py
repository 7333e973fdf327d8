"""The run-time checker of all tests: an int may stand where a float is asked for, as everywhere in Python."""

from collections import Counter
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, get_args

from beartype import BeartypeConf, beartype
from jaxtyping import AbstractArray, jaxtyped
from numpy import ndarray
from torch import Tensor

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
ENOUGH = 3  # calls with arguments of the same types and shapes that are checked: a check takes longer than most calls


made: Counter[object] = Counter()  # how often each function was defined


def checked(thing: Any = None, *, typechecker: Callable[..., Any]) -> Any:
    """As jaxtyping's decorator, which checks every argument twice and in Python, but only where a shape is named.

    Functions without shapes have nothing to compare between arguments: their types are checked by the checker alone.
    """
    if thing is None:
        return partial(checked, typechecker=typechecker)
    if isinstance(thing, type):
        return jaxtyped(thing, typechecker=typechecker)
    made[thing.__code__] += 1
    if made[thing.__code__] > ENOUGH:  # a function inside another is made anew in every call of it
        return thing
    if any(map(shaped, getattr(thing, "__annotations__", {"?": "?"}).values())):
        return first_calls(thing, jaxtyped(thing, typechecker=typechecker))
    return check(thing)


def first_calls(plain: Callable[..., Any], full: Callable[..., Any]) -> Callable[..., Any]:
    """``full`` for the first calls with arguments of each kind, then ``plain``."""
    calls: dict[object, int] = {}

    @wraps(plain)
    def call(*args: Any, **kwargs: Any) -> Any:
        kinds = tuple(map(kind, args)), *((name, kind(value)) for name, value in kwargs.items())
        before = calls.get(kinds, 0)
        if before == ENOUGH:
            return plain(*args, **kwargs)
        calls[kinds] = before + 1
        return full(*args, **kwargs)

    return call


def kind(value: Any) -> object:
    """What decides whether a value has the type that is asked for; arrays in a sequence or a mapping count too."""
    if isinstance(value, Tensor | ndarray):
        return type(value), tuple(value.shape), value.dtype
    if isinstance(value, list | tuple):
        return type(value), tuple(map(kind, value))
    return (type(value), tuple(map(kind, value.values()))) if isinstance(value, dict) else type(value)


def shaped(hint: Any) -> bool:
    """Whether a type names the shape of an array; what is a mere name yet may well do so."""
    if isinstance(hint, str) or (isinstance(hint, type) and issubclass(hint, AbstractArray)):
        return True
    return any(map(shaped, hint if isinstance(hint, list) else get_args(hint)))
