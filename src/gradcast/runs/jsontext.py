"""JSON as we write it, and JSON that anybody may have written, of which every fault is a ValueError."""

import json
import math
from typing import Any

LARGEST = 2**63  # whole numbers beyond it fit nowhere


def to_json(value: object) -> str:
    """Readable JSON with a fixed order of keys; infinities become null."""
    return json.dumps(_finite(value), indent=2, ensure_ascii=False) + "\n"


def _finite(value: object) -> object:
    match value:
        case dict():
            return {key: _finite(entry) for key, entry in value.items()}
        case list() | tuple():
            return [_finite(entry) for entry in value]
        case float() if not math.isfinite(value):
            return None
        case _:
            return value


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
