"""Anybody's network, by import path."""

import inspect
from collections.abc import Mapping
from typing import Any

from torch import nn

from gradcast.data.images import Shape
from gradcast.errors import GradcastError, message_of
from gradcast.specs.imported import find

Argument = bool | int | float | str


def network(path: str, arguments: Mapping[str, Argument], shape: Shape, outputs: int) -> nn.Module:
    """The network at ``package.module:Name``, called as ``Name(outputs=..., **arguments)``.

    Where ``Name`` has a parameter ``shape`` it is given the images' channels, height and width too. The folder in which
    gradcast runs is looked through first.
    """
    make = find(path, "model.path")
    if taken := arguments.keys() & {"outputs", "shape"}:
        raise GradcastError(f"model.arguments may not hold {taken.pop()!r}: gradcast gives it; remove it")
    given: dict[str, Any] = {"outputs": outputs, **arguments}
    try:
        parameters = inspect.signature(make).parameters
        given |= {"shape": shape} if "shape" in parameters else {}
        made = make(**given)
    except Exception as error:  # noqa: BLE001 -- anybody's code may raise anything
        raise GradcastError(
            f"{path} cannot be made with {', '.join(given)} ({type(error).__name__}: "
            f"{message_of(error)}); it is called with the keyword 'outputs', "
            "'shape' if it has that, and model.arguments"
        ) from None
    return trainable(made, path)


def trainable(made: object, what: str) -> nn.Module:
    """What somebody's code gave, if it is a network whose weights can be trained."""
    if not isinstance(made, nn.Module):
        raise GradcastError(f"{what} gives a {type(made).__name__}, not a torch.nn.Module; name a network's class")
    if not any(parameter.requires_grad for parameter in made.parameters()):
        raise GradcastError(f"{what} has no weights to train; give it parameters that require gradients")
    if unfit := [name for name, tensor in made.named_parameters() if not tensor.is_floating_point()]:
        raise GradcastError(f"{what} has weights that are no real numbers ({unfit[0]}); gradcast trains floats alone")
    return made
