"""What all tables of a specification have in common."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Positive = Annotated[int, Field(ge=1)]
Natural = Annotated[int, Field(ge=0)]
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Probability = Annotated[float, Field(ge=0, le=1)]
Share = Annotated[float, Field(gt=0, le=1)]
# A line that people read: no line breaks, nothing that steers a terminal or turns the direction of writing.
Words = Annotated[str, Field(pattern=r"^[^\p{Cc}\x{2028}-\x{202e}\x{2066}-\x{2069}]*$")]
Place = Annotated[str, Field(pattern=r"^[^\x00]*$")]  # of a file or folder


class Table(BaseModel):
    """A table: frozen, no unknown keys, no conversion of types (``tasks = true`` is a mistake)."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, validate_default=True)
