"""What objects remember, as tensors and JSON, and back into objects of the same making.

A class whose attributes change while training names them in ``checkpointed``. Nothing else is looked at, no code is
stored, and reading a state makes no object but tensors, arrays, numbers, strings and containers of these.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

Json = Any  # what the json module reads and writes
Inside = Callable[[object, Json], object]  # restores a part of a value


@runtime_checkable
class Checkpointed(Protocol):
    """Something with attributes that change; an attribute may be a property that is set as a whole."""

    checkpointed: ClassVar[tuple[str, ...]]


def generators(value: object) -> list[list[np.random.Generator]]:
    """Every list of generators, one for each replica, that the value draws from."""
    match value:
        case [np.random.Generator(), *_] if isinstance(value, list):
            return [value]
        case list() | tuple():
            return [found for entry in value for found in generators(entry)]
        case dict():
            return [found for entry in value.values() for found in generators(entry)]
        case Checkpointed():
            return [found for name in value.checkpointed for found in generators(getattr(value, name))]
    return []


def pack(value: object, tensors: dict[str, Tensor], path: str = "") -> Json:
    """JSON that describes the value; copies of its tensors, on the host, go to ``tensors`` under dotted paths."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case Checkpointed():
            return {
                "object": {name: pack(getattr(value, name), tensors, f"{path}.{name}") for name in value.checkpointed}
            }
        case Tensor():
            tensors[path] = value.detach().to("cpu", copy=True).contiguous()
            return {"tensor": path}
        case np.ndarray():
            tensors[path] = torch.from_numpy(value.copy())
            return {"array": path}
        case np.random.Generator():
            return {"numpy": value.bit_generator.state}
        case torch.Generator():
            tensors[path] = value.get_state()
            return {"torch": path}
        case list() | tuple():
            entries = [pack(entry, tensors, f"{path}.{index}") for index, entry in enumerate(value)]
            return {"list" if isinstance(value, list) else "tuple": entries}
        case dict():
            return {"dict": [[key, pack(entry, tensors, f"{path}.{key}")] for key, entry in value.items()]}
        case Optimizer() | nn.Module():
            return {"state_dict": pack(value.state_dict(), tensors, path)}
    raise TypeError(f"{path} is a {type(value).__name__}, which no checkpoint can hold")


def restore(old: object, packed: Json, tensors: Mapping[str, Tensor], device: torch.device) -> object:
    """The packed value: ``old`` itself, changed in place, where it can be; a new one where it cannot.

    A tensor of the right shape keeps its place in memory. One that was not there yet is made on ``device``. What is of
    another kind than ``old`` is refused: anybody may have written it.
    """

    def inside(before: object, entry: Json) -> object:
        return restore(before, entry, tensors, device)

    if isinstance(packed, dict) and len(packed) != 1:
        raise TypeError("several kinds of one value")
    match packed:
        case {"object": dict(attributes)}:
            return _object(old, attributes, inside)
        case {"tensor": str(path)}:
            return _tensor(old, tensors[path], device)
        case {"array": str(path)}:
            return _array(old, tensors[path].numpy().copy())
        case {"numpy": _} | {"torch": _}:
            return _generator(old, packed, tensors)
        case {"list": list(entries)} | {"tuple": list(entries)}:
            return _sequence(old, tuple if "tuple" in packed else list, entries, inside)
        case {"dict": list(pairs)}:
            _expect(old, dict)
            known = old if isinstance(old, dict) else {}
            return {key: inside(known.get(key), entry) for key, entry in pairs}
        case {"state_dict": entries}:
            state = dict(old.state_dict()) if isinstance(old, nn.Module) else None  # an optimizer has none at first
            return _state_dict(old, inside(state, entries), device)
    return _plain(old, packed)


def _sequence(old: object, kind: type, entries: Sequence[Json], inside: Inside) -> object:
    """Entry by entry; what is empty may grow, what is not keeps its length."""
    _expect(old, kind)
    known = list(old) if isinstance(old, list | tuple) else []
    if known and len(entries) != len(known):
        raise ValueError(f"{len(entries)} entries in place of {len(known)}")
    return kind(inside(*pair) for pair in zip_longest(known, entries))


def _plain(old: object, packed: Json) -> object:
    """A number, a word or nothing."""
    if not isinstance(packed, bool | int | float | str | None):
        raise TypeError("something that no checkpoint holds")
    _expect(old, *((int, float) if type(packed) in (int, float) else (type(packed),)))
    return packed


def _expect(old: object, *kinds: type) -> None:
    """What was nothing before may become anything, and anything may become nothing."""
    if old is not None and type(None) not in kinds and type(old) not in kinds:
        raise TypeError(f"a {kinds[0].__name__} in place of a {type(old).__name__}")


def _object(old: object, attributes: Mapping[str, Json], inside: Inside) -> object:
    """In the order of ``checkpointed``: what follows the weights comes after them."""
    if not isinstance(old, Checkpointed) or tuple(attributes) != tuple(old.checkpointed):
        raise TypeError(f"parts of something else in place of a {type(old).__name__}")
    for name, entry in attributes.items():
        before = getattr(old, name)
        after = inside(before, entry)
        if after is not before:
            setattr(old, name, after)
    return old


def _generator(old: object, packed: Mapping[str, Json], tensors: Mapping[str, Tensor]) -> object:
    """Nobody else's generator is made, only states are set."""
    if isinstance(old, np.random.Generator):
        if not _alike(old.bit_generator.state, packed["numpy"]):
            raise TypeError("the state of another generator")
        old.bit_generator.state = packed["numpy"]
    elif isinstance(old, torch.Generator):
        old.set_state(tensors[packed["torch"]].clone())
    else:
        raise TypeError(f"a random state for a {type(old).__name__}")
    return old


def _alike(old: object, new: object) -> bool:
    """Whether two states of generators have the same keys and kinds."""
    if isinstance(old, dict) and isinstance(new, dict):
        return old.keys() == new.keys() and all(_alike(old[key], new[key]) for key in old)
    return type(old) is type(new)


def _tensor(old: object, new: Tensor, device: torch.device) -> Tensor:
    """A layer may have grown with the tasks; its kind, number of axes and replicas are as they were."""
    if isinstance(old, Tensor) and (old.dtype != new.dtype or old.dim() != new.dim() or old.shape[:1] != new.shape[:1]):
        raise ValueError(f"a tensor of {new.dtype} {tuple(new.shape)} in place of {old.dtype} {tuple(old.shape)}")
    if isinstance(old, Tensor) and old.shape == new.shape:
        with torch.no_grad():
            return old.copy_(new)
    _expect(old, Tensor)
    return new.to(device, copy=True)  # a copy is aligned as the original was: products round alike


def _array(old: object, new: np.ndarray) -> np.ndarray:
    """Another length is a queue's; all else is as it was."""
    if isinstance(old, np.ndarray) and (
        old.dtype != new.dtype or old.ndim != new.ndim or old.shape[1:] != new.shape[1:]
    ):
        raise ValueError(f"an array of {new.dtype} {new.shape} in place of {old.dtype} {old.shape}")
    _expect(old, np.ndarray)
    return new


def _state_dict(old: object, state: object, device: torch.device) -> object:
    """Networks copy in place, optimizers take what they are given."""
    if isinstance(old, Optimizer) and isinstance(state, dict):
        for group in state["param_groups"]:
            if "capturable" in group:  # where counters live, which may be another device than at the time of writing
                group["capturable"] = device.type == "cuda"
        old.load_state_dict(state)
    elif isinstance(old, nn.Module) and isinstance(state, dict):
        old.load_state_dict(state)
    else:
        raise TypeError(f"the state of a network or optimizer in place of a {type(old).__name__}")
    return old
