"""SVG as part of a page.

Colours follow the page, styles become attributes (the page forbids inline styles), and ids of several pictures
do not meet.
"""

import re
from xml.etree import ElementTree

from gradcast.results.figures.style import INK
from gradcast.results.report.markup import Markup

SIZE = re.compile(r"[\d.]+px")
REFERENCE = re.compile(r"(?<=url\(#)[^)]+")


def inline(svg: str, name: str, alt: str) -> Markup:
    """The picture as an element that says in words what it shows; ``name`` is unique on the page."""
    root = ElementTree.fromstring(svg)
    for parent in list(root.iter()):
        for child in list(parent):
            if _plain(child.tag) in ("metadata", "style"):
                parent.remove(child)
    used = {own for element in root.iter() for own in _references(element)}
    for element in root.iter():
        element.tag = _plain(element.tag)
        _restyle(element)
        _rename(element, name, used)
    box = root.attrib["viewBox"]
    root.attrib.clear()
    root.attrib.update({"viewBox": box, "role": "img", "aria-label": alt})
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def _references(element: ElementTree.Element) -> list[str]:
    """Ids that the element asks for: a link to a shape, or a clipping path."""
    links = [value[1:] for key, value in element.attrib.items() if _plain(key) == "href" and value.startswith("#")]
    return [*links, *(own for value in element.attrib.values() for own in REFERENCE.findall(value))]


def _restyle(element: ElementTree.Element) -> None:
    """Declarations as attributes; the font is the page's, its size stays."""
    for part in filter(str.strip, element.attrib.pop("style", "").split(";")):
        key, value = (word.strip() for word in part.split(":", 1))
        if key == "font" and (size := SIZE.search(value)):  # all in one, as older versions of matplotlib write it
            element.set("font-size", size.group())
        elif key != "font-family":
            element.set(key, value)
    for key, value in element.attrib.items():
        if value.lower() == INK:
            element.set(key, "currentColor")


def _rename(element: ElementTree.Element, name: str, used: set[str]) -> None:
    """Ids that nobody asks for go, the others are the picture's own."""
    own = element.attrib.pop("id", None)
    if own in used:
        element.set("id", f"{name}-{own}")
    for key, value in list(element.attrib.items()):
        if _plain(key) != key:  # xlink:href is href today
            key, value = _plain(key), element.attrib.pop(key)
        linked = f"#{name}-{value[1:]}" if key == "href" and value.startswith("#") else value
        element.set(key, REFERENCE.sub(lambda found: f"{name}-{found.group()}", linked))


def _plain(name: str) -> str:
    """The name of an element without its namespace."""
    return name.rpartition("}")[2]
