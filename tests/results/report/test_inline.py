import re

import numpy as np

from gradcast.results.figures.curves import Curve, stream_curves
from gradcast.results.figures.matrices import accuracy_matrix
from gradcast.results.figures.style import COLOURS, svg
from gradcast.results.report.inline import inline
from tests.trained_runs import finished


def picture(name: str, label: str = "GEM") -> str:
    curves = [Curve(label, 0, np.array([[1.0, 2.0]])), Curve("other", 1, np.array([[2.0, 1.0]]))]
    return inline(svg(stream_curves("loss", curves)), name, f"curves of {label}")


def test_the_page_can_colour_it_and_forbid_styles() -> None:
    text = picture("a")
    assert "style" not in text
    assert "#24292f" not in text
    assert 'fill="currentColor"' in text
    assert 'stroke="currentColor"' in text
    assert f'stroke="{COLOURS[0]}"' in text
    assert "font-family" not in text
    assert re.search(r'<text [^>]*font-size="9px"', text)


def test_it_asks_nobody_and_names_no_address() -> None:
    text = inline(svg(accuracy_matrix(finished()[1][0])), "a", "")
    assert "http" not in text
    assert "metadata" not in text
    hrefs = re.findall(r'href="([^"]{1,30})', text)
    assert hrefs
    assert all(href.startswith(("#", "data:image/png;base64")) for href in hrefs)


def test_ids_of_two_pictures_differ_and_every_reference_is_met() -> None:
    first, second = picture("a"), picture("b")
    ids = [re.findall(r' id="([^"]+)"', text) for text in (first, second)]
    assert ids[0]
    assert not set(ids[0]) & set(ids[1])
    for text, own in zip((first, second), ids, strict=True):
        asked = re.findall(r'href="#([^"]+)"', text) + re.findall(r"url\(#([^)]+)\)", text)
        assert set(asked) == set(own)
    assert picture("a") == first


def test_it_says_what_it_shows_and_labels_stay_text() -> None:
    text = picture("a", "<script>alert(1)</script>")
    assert text.startswith("<svg viewBox=")
    assert 'role="img"' in text
    assert 'aria-label="curves of &lt;script&gt;alert(1)&lt;/script&gt;"' in text
    assert "<script" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;</text>" in text


def test_the_older_spelling_of_fonts() -> None:
    old = "<svg viewBox='0 0 1 1'><text style=\"font: 600 10px 'DejaVu Sans'; text-anchor: middle\">x</text></svg>"
    assert '<text font-size="10px" text-anchor="middle">x</text>' in inline(old, "a", "")
