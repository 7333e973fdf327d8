"""What all tables of a specification have in common."""

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, model_serializer

Positive = Annotated[int, Field(ge=1)]
# Numbers of things of which no machine holds or trains more: a slip of the keyboard is refused at once.
Pixels = Annotated[int, Field(ge=1, le=4096)]  # a side
TaskCount = Annotated[int, Field(ge=1, le=100_000)]
ImageCount = Annotated[int, Field(ge=1, le=10_000_000)]
EpochCount = Annotated[int, Field(ge=1, le=1_000_000)]
StepCount = Annotated[int, Field(ge=1, le=1_000_000_000)]
Natural = Annotated[int, Field(ge=0)]
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Probability = Annotated[float, Field(ge=0, le=1)]
Share = Annotated[float, Field(gt=0, le=1)]
Momentum = Annotated[float, Field(ge=0, lt=1)]
# A line that people read: no line breaks, nothing that steers a terminal or turns the direction of writing.
Words = Annotated[str, Field(pattern=r"^[^\p{Cc}\x{2028}-\x{202e}\x{2066}-\x{2069}]*$")]
Place = Annotated[str, Field(pattern=r"^[^\x00]*$")]  # of a file or folder


class Table(BaseModel):
    """A table: frozen, no unknown keys, no conversion of types (``tasks = true`` is a mistake).

    A run is known by what its specification says. Keys that came later are left out where they have their default
    (``omitted_defaults``), so that earlier runs are found again.
    """

    omitted_defaults: ClassVar[tuple[str, ...]] = ()
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, validate_default=True)

    @model_serializer(mode="wrap")
    def _said(self, handler: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        said = handler(self)
        for key in {key for own in type(self).__mro__ for key in getattr(own, "omitted_defaults", ())}:
            if getattr(self, key) == type(self).model_fields[key].default:
                said.pop(key, None)
        return said


def nearest(word: str, known: Iterable[str], prefix: str = "", ending: str = "") -> str:
    """The end of a sentence about an unknown word: the nearest known one, or all of them."""
    options = list(known)
    close = get_close_matches(word, options, n=1, cutoff=0.6)
    return f"; did you mean {prefix + close[0] + ending!r}?" if close else f"; known: {', '.join(options)}"
