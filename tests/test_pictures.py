"""The picture of the README shows what the measured tables say, in figures and in words."""

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from tools import render_picture

from gradcast.reproduce.measured_tables import folder
from gradcast.runs.jsontext import parse_json

ROOT = Path(__file__).parents[1]


def test_the_picture_is_that_of_the_measured_tables() -> None:
    drawn = render_picture.picture(render_picture.drawn())
    assert render_picture.PICTURE.read_text(encoding="utf-8") == drawn, "python tools/render_picture.py"
    assert len(drawn) < 100_000


def test_pages_say_in_words_what_it_shows() -> None:
    words = render_picture.words(render_picture.drawn())
    for page, target in render_picture.PAGES.items():
        assert f"![{words}]({target})" in page.read_text(encoding="utf-8"), "python tools/render_picture.py"


def test_every_row_has_its_mean_where_the_scale_says() -> None:
    measured = {}
    for table in ("E3", "P3"):
        for row in parse_json((folder() / f"{table}.json").read_text(encoding="utf-8"))["rows"]:
            if row["ours"]:
                measured[table, row["name"]] = row["ours"]["acc"]["mean"]
    wanted = [
        measured[block.table, name]
        for block in render_picture.BLOCKS
        for name in block.rows
        if (block.table, name) in measured
    ]
    tree = ElementTree.fromstring(render_picture.PICTURE.read_text(encoding="utf-8"))
    own = "{http://www.w3.org/2000/svg}"
    ticks = {int(str(text.text)): float(text.get("x", "")) for text in tree.iter(f"{own}text") if _is_tick(text.text)}
    (low, left), *_, (high, right) = sorted(ticks.items())
    found = [float(dot.get("cx", "")) for dot in tree.iter(f"{own}circle")]
    shown = [low + (high - low) * (place - left) / (right - left) for place in found]
    assert len(wanted) > 8
    assert all(abs(one - other) < 0.01 for one, other in zip(shown, wanted, strict=True))


def _is_tick(text: str | None) -> bool:
    return re.fullmatch(r"\d+", text or "") is not None
