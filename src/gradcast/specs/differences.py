"""Which settings differ between rows or runs."""

from collections.abc import Sequence
from typing import Any

from gradcast.specs.spec import Setting
from gradcast.specs.text import value_text

NONE = "-"  # where a setting has no such key


def differing(settings: Sequence[Setting]) -> dict[str, list[str]]:
    """Every key whose value is not the same in all settings, with the values as TOML writes them."""
    flat = [_flat(setting) for setting in settings]
    keys = dict.fromkeys(key for own in flat for key in own)
    found = {key: [value_text(own[key]) if key in own else NONE for own in flat] for key in keys}
    return {key: values for key, values in found.items() if len(set(values)) > 1}


def _flat(setting: Setting) -> dict[str, Any]:
    """All values by ``table.key``; of several signals or pools the second has a number, as in ``signal.1.weight``."""
    found: dict[str, Any] = {}
    for table in type(setting).model_fields:
        own = getattr(setting, table)
        for number, each in enumerate(own if isinstance(own, list) else [own]):
            prefix = table if number == 0 else f"{table}.{number}"
            found |= {f"{prefix}.{key}": getattr(each, key) for key in type(each).model_fields}
    return found
