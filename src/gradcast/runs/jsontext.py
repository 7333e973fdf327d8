"""JSON that anybody may have written: every fault is a ValueError."""

import json
from typing import Any

LARGEST = 2**63  # whole numbers beyond it fit nowhere


def parse_json(text: str) -> Any:  # noqa: ANN401 -- JSON holds what it holds; callers check
    """What the text says; nesting without end and numbers beyond all measure are as wrong as a text that breaks off."""
    try:
        return json.loads(text, parse_int=_whole)
    except RecursionError:
        raise ValueError("it nests too deeply") from None


def _whole(digits: str) -> int:
    number = int(digits)
    if abs(number) > LARGEST:
        raise ValueError(f"the number {digits[:20]}… is too large")
    return number
