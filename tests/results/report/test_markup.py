from gradcast.results.figures.style import COLOURS
from gradcast.results.report.markup import Markup, escaped, joined, minus, shade, shades, tag


def test_text_is_escaped_and_markup_is_not() -> None:
    assert escaped("<script>\"'&") == "&lt;script&gt;&quot;&#x27;&amp;"
    assert escaped(Markup("<b>")) == "<b>"
    assert joined("<", tag("b", "&")) == "&lt;<b>&amp;</b>"
    assert escaped("\ud800") == "?"


def test_attributes_are_escaped_and_renamed_and_left_out() -> None:
    made = tag("a", "x", href='#"><script>', class_="c", aria_label="l", title=None)
    assert made == '<a href="#&quot;&gt;&lt;script&gt;" class="c" aria-label="l">x</a>'


def test_only_signs_of_numbers_become_minus() -> None:
    assert minus("-0.5 to -.5, x-1, a - b (-2)") == "−0.5 to −.5, x-1, a - b (−2)"


def test_every_place_has_a_class_with_its_colour() -> None:
    assert shade(0) == "ink"
    assert shade(1) == shade(1 + len(COLOURS)) == "row-0"
    for place in range(1, 12):
        assert f".{shade(place)}{{color:{COLOURS[(place - 1) % len(COLOURS)]}}}" in shades()
