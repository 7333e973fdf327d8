"""A network that a caller in Python brings along: a module or what makes one, and what tells it from all others."""

import copy
import inspect
import uuid
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from gradcast.data.images import Shape
from gradcast.errors import GradcastError, message_of
from gradcast.networks.featured import last_linear
from gradcast.networks.python_network import trainable
from gradcast.networks.registry import check_images

PLAIN = (bool, int, float, str, tuple, type(None))  # attributes whose text says all


@dataclass(frozen=True)
class CallersNetwork:
    """``make`` gives a new one, out of torch's random numbers unless the caller's has its weights already."""

    make: Callable[[], nn.Module]
    outputs: int
    identity: str


def callers_network(given: object, shape: Shape, outputs: int) -> CallersNetwork:
    """Of a module, which is copied and stays as it is, or of a function or class that makes one.

    What makes one is called with the keywords ``outputs`` and ``shape`` where it has them.
    """
    if isinstance(given, nn.Module):
        module, what = given, f"the network {type(given).__name__}"

        def make() -> nn.Module:
            return copy.deepcopy(module).cpu()
    else:
        what, call = getattr(given, "__name__", type(given).__name__), _call(given, shape, outputs)

        def make() -> nn.Module:
            return trainable(call(), what).cpu()

    with torch.random.fork_rng(devices=[]):  # a trial leaves the caller's random numbers alone
        made = trainable(make(), what)
    last = last_linear(made)
    if last is None:
        raise GradcastError(
            f"{what} has no linear layer, whose inputs would be its features; let it end in an nn.Linear"
        )
    check_images(made, what, shape, last[1].out_features)
    return CallersNetwork(make, last[1].out_features, identity_of(made))


def _call(given: object, shape: Shape, outputs: int) -> Callable[[], object]:
    if not callable(given):
        raise GradcastError(
            f"the model is a {type(given).__name__}; give a network's name, a torch.nn.Module or what makes one"
        )
    function: Callable[..., object] = given

    def call() -> object:
        try:
            parameters = inspect.signature(function).parameters
            known: dict[str, object] = {"outputs": outputs, "shape": shape}
            return function(**{name: value for name, value in known.items() if name in parameters})
        except Exception as error:  # noqa: BLE001 -- anybody's code may raise anything
            name = getattr(given, "__name__", type(given).__name__)
            raise GradcastError(
                f"{name} cannot make a network ({type(error).__name__}: {message_of(error)}); it is called with the "
                "keywords 'outputs' and 'shape' where it has them"
            ) from None

    return call


def identity_of(network: nn.Module) -> str:
    """Its layers, their plain attributes and the source of their classes.

    Where the source of a class is not known, no two networks are the same: another text every time.
    """
    layers = [(name, type(layer).__qualname__, _plain(layer)) for name, layer in network.named_modules()]
    kinds = {type(layer) for layer in network.modules() if not type(layer).__module__.startswith("torch.")}
    try:
        sources = sorted(inspect.getsource(kind) for kind in kinds)
    except (OSError, TypeError):
        sources = [uuid.uuid4().hex]
    return repr((repr(network), layers, sources))


def _plain(layer: nn.Module) -> list[tuple[str, object]]:
    return sorted((key, value) for key, value in vars(layer).items() if isinstance(value, PLAIN) and key != "training")
