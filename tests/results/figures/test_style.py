from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from gradcast.results.figures.curves import Curve, stream_curves
from gradcast.results.figures.style import COLOURS, INK, colour, legend, mark, plain, save_png, stamp, svg


def luminance(colour: str) -> float:
    """Relative luminance of sRGB, as the accessibility guidelines define it."""
    parts = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("own", COLOURS)
def test_colours_show_on_a_light_and_on_a_dark_page(own: str) -> None:
    light, dark, found = luminance("#ffffff"), luminance("#14161a"), luminance(own)
    assert (light + 0.05) / (found + 0.05) >= 3
    assert (found + 0.05) / (dark + 0.05) >= 3


def test_neighbouring_rows_differ_in_colour_and_mark() -> None:
    looks = [(colour(place), mark(place)) for place in range(len(COLOURS) + 1)]
    assert looks[0][0] == INK
    assert len({own for own, _ in looks}) == len({sign for _, sign in looks}) == len(looks)
    assert colour(40) in COLOURS


def test_labels_become_one_printable_line() -> None:
    assert plain("a\n b\x00c") == "a b c"
    assert plain("x" * 50, 10) == "x" * 9 + "…"
    assert plain("x" * 10, 10) == "x" * 10


def test_words_are_stamped_on_a_picture_where_there_are_any() -> None:
    figure = stream_curves("accuracy", [Curve("GEM", 0, np.ones((2, 3)))])
    before = svg(figure)
    stamp(figure, "")
    assert svg(figure) == before
    stamp(figure, "not a result")
    (line,) = [line for line in svg(figure).splitlines() if ">not a result</text>" in line]
    assert f"fill: {INK}" in line


def test_files_repeat_exactly_and_carry_no_date(tmp_path: Path) -> None:
    figure = stream_curves("accuracy", [Curve("梅", 0, np.ones((2, 3)))])  # a glyph the font has not
    assert svg(figure) == svg(figure)
    assert "date" not in svg(figure)
    assert "accuracy</text>" in svg(figure)  # text, not outlines
    save_png(figure, tmp_path / "a.png")
    assert Image.open(tmp_path / "a.png").convert("RGB").getpixel((0, 0)) == (255, 255, 255)


def test_a_legend_has_every_row_of_all_axes_once() -> None:
    figure = Figure(layout="constrained")
    for axis, labels in zip(figure.subplots(1, 2), (["GEM", "$x$"], ["GEM", ""]), strict=True):
        for label in labels:
            axis.plot([0, 1], label=label)
    legend(figure, columns=2)
    texts = figure.legends[0].get_texts()
    assert [text.get_text() for text in texts] == ["GEM", "$x$"]
    assert not any(text.get_parse_math() for text in texts)
