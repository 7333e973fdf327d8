"""What a sweep goes over: a key of a row and its values, listed or between two ends."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gradcast.errors import GradcastError
from gradcast.specs.text import literal, value_text

Value = object  # of a setting: a number, a word, a truth value or a list
DIGITS = 6  # that a value within a range keeps, so that people can read it
FAR_APART = 10  # times the least of them
SCALES = ("log", "lin")
OPENING, CLOSING = "[{", "]}"


@dataclass(frozen=True)
class Range:
    """Values between two ends, evenly spaced as they are or in the logarithm."""

    low: float
    high: float
    count: int | None = None  # in a grid
    logarithmic: bool = False
    whole: bool = False  # only whole numbers: the setting takes no others

    @property
    def wholes(self) -> int:
        """How many whole numbers there are, with both ends."""
        return int(self.high) - int(self.low) + 1

    def at(self, share: float) -> Value:
        """The value at a share of the way from the lower end to the upper one."""
        if self.logarithmic:
            found = math.exp(math.log(self.low) + share * (math.log(self.high) - math.log(self.low)))
        else:
            found = self.low + share * (self.high - self.low)
        return self.rounded(found)

    def rounded(self, value: float) -> Value:
        """As a setting takes it and a person reads it."""
        return round(value) if self.whole else float(f"{value:.{DIGITS}g}")


@dataclass(frozen=True)
class Over:
    """One key with its values; ``key`` as --set has it, without the row."""

    key: str
    values: Sequence[Value] | Range
    text: str  # as it was given

    @property
    def logarithmic(self) -> bool:
        """Whether its values are shown on a logarithmic axis: a range of that kind, or numbers far apart."""
        if isinstance(self.values, Range):
            return self.values.logarithmic
        numbers = [own for own in self.values if isinstance(own, int | float) and not isinstance(own, bool) and own > 0]
        return len(numbers) == len(self.values) and max(numbers) >= FAR_APART * min(numbers)

    def grid(self) -> list[Value]:
        """Every value of a grid, each once."""
        if not isinstance(self.values, Range):
            return list(self.values)
        if self.values.count is None:
            raise GradcastError(
                f"--over {self.key}={self.text} does not say how many values; add their number, as in {self.text}:5"
            )
        last = max(self.values.count - 1, 1)
        return list(dict.fromkeys(self.values.at(place / last) for place in range(self.values.count)))

    def samples(self) -> list[Value]:
        """Values that show whether the setting takes any: all that are listed, or both ends."""
        return [self.values.at(0.0), self.values.at(1.0)] if isinstance(self.values, Range) else list(self.values)

    def for_setting(self, present: object) -> "Over":
        """The same for a setting that has this value: where it is no float and the ends are whole, all values are."""
        own = self.values
        if not isinstance(own, Range) or isinstance(present, float) or not (own.low % 1 == own.high % 1 == 0):
            return self
        return replace(self, values=replace(own, whole=True))


def parse_over(given: str) -> tuple[str, Over]:
    """The row named in ``KEY=VALUES`` (empty where none is), and the rest."""
    key, equals, text = (part.strip() for part in given.partition("="))
    if not equals or not key:
        raise GradcastError(f"--over {given!r} is not KEY=VALUES, as in --over learner.lr=0.01,0.1")
    parts, row = key.split("."), ""
    if parts[0] == "row" and len(parts) > 2:
        row, key = parts[1], ".".join(parts[2:])
    return row, Over(key, _values(key, text), text)


def all_over(given: Sequence[str]) -> tuple[str, list[Over]]:
    """The row that all of them name, or none of them, and each key once."""
    found = [parse_over(each) for each in given]
    if not found:
        raise GradcastError("there is nothing to sweep over; add --over KEY=VALUES, as in --over learner.lr=0.01,0.1")
    rows = list(dict.fromkeys(row for row, _ in found if row))
    if len(rows) > 1:
        raise GradcastError(f"--over names the rows {rows[0]!r} and {rows[1]!r}; one row is tuned at a time")
    keys = [own.key for _, own in found]
    for key in keys:
        if keys.count(key) > 1:
            raise GradcastError(f"--over {key} is given {keys.count(key)} times; list all its values in one")
    return rows[0] if rows else "", [own for _, own in found]


def as_text(over: Mapping[str, Sequence[Value] | str] | Sequence[str]) -> list[str]:
    """``KEY=VALUES`` for each, from what a caller in Python says."""
    if not isinstance(over, Mapping):
        return list(over)
    listed = {key: own if isinstance(own, str) else ",".join(map(value_text, own)) for key, own in over.items()}
    return [f"{key}={own}" for key, own in listed.items()]


def _values(key: str, text: str) -> Sequence[Value] | Range:
    scale, colon, rest = text.partition(":")
    if colon and scale in SCALES:
        return _range(key, text, scale, rest.split(":"))
    words = [part.strip() for part in split_list(text)]
    if not text or not all(words):
        raise GradcastError(f"--over {key}={text} has no value in some place; list values, separated by commas")
    twice = next((word for word in words if words.count(word) > 1), None)
    if twice is not None:
        raise GradcastError(f"--over {key}={text} has {twice} more than once; each value may appear once")
    return [literal(word) for word in words]


def _range(key: str, text: str, scale: str, parts: Sequence[str]) -> Range:
    try:
        low, high = (float(part) for part in parts[:2])
        count = int(parts[2]) if len(parts) > 2 else None
        if len(parts) > 3 or not (math.isfinite(low) and math.isfinite(high)):
            raise ValueError
    except ValueError:
        raise GradcastError(
            f"--over {key}={text} is no range; write {scale}:LOW:HIGH:COUNT, as in {scale}:0.01:0.1:3"
        ) from None
    if low >= high:
        raise GradcastError(f"--over {key}={text} goes from {low:g} to {high:g}; the lower end comes first")
    if scale == "log" and low <= 0:
        raise GradcastError(
            f"--over {key}={text} begins at {low:g}, which has no logarithm; begin above 0, or use lin:"
        )
    if count is not None and count < 2:
        raise GradcastError(f"--over {key}={text} asks for {count} values; a range has 2 or more")
    return Range(low, high, count, logarithmic=scale == "log")


def split_list(text: str) -> list[str]:
    """Parts between commas that stand in no brackets and no quotation marks."""
    parts, depth, quote = [""], 0, ""
    for sign in text:
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "\"'":
            quote = sign
        depth += (sign in OPENING) - (sign in CLOSING) if not quote else 0
        if sign == "," and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += sign
    return parts
