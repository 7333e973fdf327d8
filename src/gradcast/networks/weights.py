"""Weights from a file into a network: nothing in the file is executed, and a network is loaded whole or not at all."""

import pickle
import re
import struct
import warnings
from collections.abc import Callable, Collection
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from gradcast.errors import GradcastError

State = dict[str, Tensor]
ENDINGS = (".safetensors", ".pth", ".pt", ".bin")
WRAPPERS = ("state_dict", "model")  # under which training scripts keep the weights, beside other things
BROKEN = (
    SafetensorError, pickle.UnpicklingError, struct.error, EOFError, RuntimeError, AttributeError, ImportError,
    LookupError, ValueError, TypeError, ArithmeticError, MemoryError, AssertionError, OSError,
)  # fmt: skip
# How torch words that a pickle names what is no part of weights; operand 149 opens pickles of protocol 4 and later.
CODE = r"GLOBAL ([\w.]{1,100})|Unsupported operand 149\b"


def load_weights(
    module: nn.Module,
    path: Path,
    *,
    skip: Collection[str] = (),
    optional: Collection[str] = (),
    rename: Callable[[State], State] | None = None,
) -> None:
    """Copy the weights and buffers in a ``.safetensors`` or torch file into ``module``.

    ``rename`` turns the file's names into the module's. Entries named in ``skip``, in the module's names, keep what
    they hold, whether the file has them or not: a classifier for other classes, say. Those named in ``optional`` keep
    what they hold where the file has none of them: the output layer, where the file holds features.
    """
    state = _plain(_read(path), path)
    state = state if rename is None else rename(state)
    if not any(name in state for name in optional):
        skip = {*skip, *optional}
    found = {name: tensor for name, tensor in state.items() if name not in skip}
    own = {name: tensor for name, tensor in module.state_dict().items() if name not in skip}
    _check_names(found, own, f"{path} does not hold the weights of {type(module).__name__}")
    checked = {name: _fitting(found[name], own[name], f"{path}: the entry {_quoted(name)}") for name in own}
    with torch.no_grad():
        for name, tensor in checked.items():
            own[name].copy_(tensor)


def _read(path: Path) -> object:
    if path.suffix not in ENDINGS:
        raise GradcastError(f"{path} is of an unknown kind; give a weight file that ends in one of {' '.join(ENDINGS)}")
    if path.exists() and not path.is_file():
        raise GradcastError(f"{path} is not an ordinary file; name a weight file")
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        with warnings.catch_warnings(action="ignore"):  # what torch warns of, it then refuses
            return torch.load(path, weights_only=True, map_location="cpu")
    except FileNotFoundError:
        raise GradcastError(f"the weight file {path} does not exist; check its name, or fetch it first") from None
    except BROKEN as error:
        if asked := re.search(CODE, str(error)):
            thing = asked[1] or "a new pickle protocol"
            raise GradcastError(
                f"{path} holds more than weights: it asks for {thing}, which was refused and not executed; fetch it "
                "again, torch.save the network's state_dict() alone, or give a .safetensors file"
            ) from None
        raise GradcastError(
            f"{path} cannot be read as weights ({type(error).__name__}): it is cut off, damaged or of another kind; "
            "fetch it again"
        ) from None


def _plain(content: object, path: Path) -> State:
    """The names and tensors of a file, out of their wrapping."""
    for wrapper in WRAPPERS:
        if isinstance(content, dict) and isinstance(content.get(wrapper), dict):
            content = content[wrapper]
    remedy = "give a file that holds a network's state_dict()"
    if not isinstance(content, dict) or not content:
        what = "an empty dict" if isinstance(content, dict) else f"a value of type {type(content).__name__}"
        raise GradcastError(f"{path} holds {what}, not names with tensors; {remedy}")
    for name, tensor in content.items():
        if not isinstance(name, str) or not isinstance(tensor, Tensor):
            pair = f"a value of type {type(tensor).__name__} under {_quoted(name)}"
            raise GradcastError(f"{path} holds {pair}, not a tensor under a name; {remedy}")
    parallel = all(name.startswith("module.") for name in content)  # as torch's data parallelism saves it
    return {name.removeprefix("module.") if parallel else name: tensor for name, tensor in content.items()}


def _check_names(found: State, own: State, problem: str) -> None:
    missing = [name for name in own if name not in found]
    unexpected = [name for name in found if name not in own]
    faults = [
        f"{len(names)} {'entry is' if len(names) == 1 else 'entries are'} {fault} (the first: {_quoted(names[0])})"
        for names, fault in ((missing, "missing"), (unexpected, "unexpected"))
        if names
    ]
    if faults:
        raise GradcastError(f"{problem}: {' and '.join(faults)}; give a file of this very network")


def _fitting(tensor: Tensor, own: Tensor, entry: str) -> Tensor:
    """The tensor in its place's own type; the shape is looked at first, since a file may claim a vast one."""
    if tensor.shape != own.shape:
        raise GradcastError(
            f"{entry} has the shape {tuple(tensor.shape)} where the network has {tuple(own.shape)}; "
            "give a file of this very network, or skip the entry"
        )
    if tensor.layout != torch.strided or tensor.device.type != "cpu" or _kind(tensor) != _kind(own):
        raise GradcastError(
            f"{entry} is of another kind ({tensor.dtype}, {tensor.layout}, {tensor.device}) than the network's "
            f"{own.dtype}; convert the file to plain floating-point weights"
        )
    tensor = tensor.to(own.dtype)
    if not tensor.isfinite().all():
        raise GradcastError(f"{entry} holds numbers that are not finite; fetch the file again, or give another one")
    return tensor


def _kind(tensor: Tensor) -> tuple[bool, bool, bool]:
    return tensor.is_floating_point(), tensor.is_complex(), tensor.is_quantized


def _quoted(name: object) -> str:
    """A file may have chosen its words: short, on one line, and nothing that a terminal would obey."""
    return ascii(name)[:100]
