"""Mistakes in a specification, in one sentence that names the key and the nearest valid one."""

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from gradcast.specs.spec import CHOICES, SEVERAL, Setting
from gradcast.specs.table import nearest


def explain(error: ValidationError) -> str:
    """What to say of the first mistake."""
    return _explain(_first(error))


def _first(error: ValidationError) -> ErrorDetails:
    """What to say of several mistakes: an unknown key may explain that another is missing."""
    found = error.errors()
    return next((own for own in found if own["type"] == "extra_forbidden"), found[0])


def _explain(error: ErrorDetails) -> str:
    """One sentence for one validation error."""
    location, owner = [str(part) for part in error["loc"]], ""
    if location[:2] == ["head_start", "signal"] and len(location) > 2:
        owner, location = "head_start.", location[1:]  # the table of a signal within a table
    if len(location) > 1 and location[0] in SEVERAL and location[1].isdigit():
        location.pop(1)
    chosen = (
        location.pop(1)
        if len(location) > 1 and location[0] in CHOICES and location[1] in CHOICES[location[0]]
        else None
    )
    key = owner + ".".join(location[:2])
    match error["type"]:
        case "extra_forbidden":
            known = fields(location[0], chosen)
            where = f" ({location[0]} {chosen!r})" if chosen else ""
            return f"unknown key {key!r}{where}{nearest(location[-1], known, prefix=f'{owner}{location[0]}.')}"
        case "union_tag_invalid":
            name = str(error["input"].get("name"))
            return f"{key}.name = {name!r} is unknown{nearest(name, CHOICES[location[0]])}"
        case "literal_error":
            return f"{key} = {error['input']!r} is not valid; it must be {error['ctx']['expected']}"
        case "value_error":
            return str(error["ctx"]["error"])
        case "missing":
            return f"{key} is missing; set it, as in --set {key}=VALUE"
        case _:
            return f"{key} = {error['input']!r} is not valid: {error['msg'][0].lower()}{error['msg'][1:]}"


def fields(table: str, chosen: str | None) -> list[str]:
    if chosen in CHOICES.get(table, {}):
        return list(CHOICES[table][chosen].model_fields)
    return list(getattr(Setting.model_fields[table].annotation, "model_fields", {}))
