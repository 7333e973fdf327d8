"""HTML that is safe by construction: whatever is not markup already is escaped."""

import html
import re

from gradcast.results.figures.style import COLOURS


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def escaped(text: str) -> Markup:
    """Markup as it is, all other text made harmless."""
    return text if isinstance(text, Markup) else Markup(html.escape(text.encode("utf-8", "replace").decode()))


def joined(*parts: str) -> Markup:
    """All parts in one piece of markup."""
    return Markup("".join(escaped(part) for part in parts))


def tag(name: str, *children: str, **attributes: str | None) -> Markup:
    """An element; ``class_`` and ``aria_label`` become class and aria-label, None leaves an attribute out."""
    pairs = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items() if value is not None}
    written = "".join(f' {key}="{escaped(value)}"' for key, value in pairs.items())
    return Markup(f"<{name}{written}>{joined(*children)}</{name}>")


def minus(text: str) -> str:
    """Numbers with the sign that typographers use."""
    return re.sub(r"(?<!\w)-(?=[\d.])", "−", text)


def shade(place: int) -> str:
    """The class that has the colour of the row at this place of the specification."""
    return "ink" if place == 0 else f"row-{(place - 1) % len(COLOURS)}"


def shades() -> str:
    """Style rules of these classes."""
    return "".join(f".row-{index}{{color:{own}}}\n" for index, own in enumerate(COLOURS))
