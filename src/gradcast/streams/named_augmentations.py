"""Augmentations by the names in a specification: the package's own, and anybody's by import path."""

from collections.abc import Iterable
from functools import cache
from typing import Annotated, Any

import torch
from pydantic import Field

from gradcast.data.images import Shape
from gradcast.errors import GradcastError, message_of
from gradcast.networks.registry import file_digest
from gradcast.specs.imported import find, source_file
from gradcast.streams.augment import AUGMENTATIONS, Augmentation, AugmentationName

KEY = "augment"
KEYS = (KEY, "weak", "strong")  # keys of tables that list augmentations
# A name, or "package.module:Class" of the user's own.
AnyAugmentation = AugmentationName | Annotated[str, Field(pattern=r"^[^:]+:[^:]+$")]


def named(steps: Iterable[AnyAugmentation], shape: Shape | None = None) -> tuple[Augmentation, ...]:
    """Augmentations by their names in a specification; one's own are tried on images of this shape."""
    found = []
    for step in steps:
        known = {str(name): own for name, own in AUGMENTATIONS.items()}.get(step)
        found.append(known or _imported(step))
        if known is None and shape is not None:
            _try(found[-1], shape)
    return tuple(found)


def named_by(table: object) -> dict[str, list[str]]:
    """Augmentations that a table of a specification lists, by key."""
    found = {key: getattr(table, key, []) for key in KEYS}
    return {key: list(steps) for key, steps in found.items() if steps}


def all_named_by(*tables: object) -> list[str]:
    """The same of several tables in one list."""
    return [step for table in tables for steps in named_by(table).values() for step in steps]


def own_code(steps: Iterable[str]) -> dict[str, str]:
    """Digests of the source of one's own augmentations, which are part of a run's identity."""
    files = {step: source_file(step, KEY) for step in steps if ":" in step}
    return {f"augmentation {step}": file_digest(file) for step, file in files.items() if file is not None}


@cache  # signals that name the same augmentations share their images
def _imported(path: str) -> Augmentation:
    """An object of the class at this path, made without arguments."""
    try:
        made: Any = find(path, KEY)()
    except GradcastError:
        raise
    except Exception as error:  # noqa: BLE001 -- anybody's code may raise anything
        raise GradcastError(
            f"{path} cannot be made without arguments ({type(error).__name__}: {message_of(error)}); name a class that "
            "can"
        ) from None
    numbers = getattr(made, "numbers", None)
    if not callable(made) or not isinstance(numbers, int) or isinstance(numbers, bool) or numbers < 0:
        raise GradcastError(
            f"{path} is no augmentation; it needs a whole number 'numbers', how many random numbers an image takes, "
            "and a method __call__(self, x, u)"
        )
    return Augmentation(path, made, numbers)


def _try(step: Augmentation, shape: Shape) -> None:
    """Three random images tell whether an augmentation of one's own keeps their shape and draws nothing itself."""
    generator = torch.Generator().manual_seed(0)
    x, u = torch.rand(3, *shape, generator=generator), torch.rand(3, step.numbers, generator=generator)
    try:
        with torch.random.fork_rng(devices=[]):
            once, again, alone = step.apply(x.clone(), u), step.apply(x.clone(), u), step.apply(x[:1].clone(), u[:1])
    except Exception as error:  # noqa: BLE001 -- anybody's code may raise anything
        raise GradcastError(
            f"the augmentation {step.name} cannot take images of {' x '.join(map(str, shape))} "
            f"({type(error).__name__}: {message_of(error)}); correct it, or leave it out"
        ) from None
    if not isinstance(once, torch.Tensor) or once.shape != x.shape or not once.is_floating_point():
        given = tuple(once.shape) if isinstance(once, torch.Tensor) else type(once).__name__
        raise GradcastError(
            f"the augmentation {step.name} makes {given} of images {tuple(x.shape)}; it must return floats of the same "
            "shape"
        )
    if not torch.isfinite(once).all() or once.min() < 0 or once.max() > 1:
        raise GradcastError(f"the augmentation {step.name} gives values outside 0 to 1; clamp them")
    if not torch.equal(once, again):
        raise GradcastError(
            f"the augmentation {step.name} gives another image each time; take random numbers from its argument u "
            "alone, so that a run can be repeated"
        )
    if not torch.allclose(alone, once[:1], atol=1e-5):
        raise GradcastError(
            f"the augmentation {step.name} makes something else of an image when others are beside it; treat every "
            "image alone, so that seeds can train together"
        )
