import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from gradcast.results.report.page import page
from gradcast.results.report.read import Found, read_runs
from gradcast.results.report.write import Content, compose
from tests.results.report.browser import headless_chromium
from tests.results.report.copies import copy_of_run, relabel, unfinish, with_portrait

EVIL = "<script>throw 1</script>"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> tuple[Found, Content, Path]:
    """A run with an evil label, and one with a row on its way."""
    folder = tmp_path_factory.mktemp("runs")
    evil = copy_of_run(folder / "a")
    relabel(evil, "GEM + random directions", EVIL)
    with_portrait(evil, "random")
    unfinish(copy_of_run(folder / "b"), "random", lines=2)
    found = read_runs(folder)
    content = compose(found)
    file = folder / "report.html"
    file.write_text(page(found, content), encoding="utf-8")
    return found, content, file


@pytest.fixture(scope="module")
def browser(report: tuple[Found, Content, Path]) -> Iterator[Any]:
    with headless_chromium() as found:
        found.get(report[2].as_uri())
        yield found


class Outline(HTMLParser):
    """Ids, links within the page, and the elements that stand open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.scripts = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.scripts += tag == "script"
        self.ids += [values["id"] or ""] if "id" in values else []
        self.links += [(values["href"] or "")[1:]] if tag == "a" else []


def test_ids_are_unique_and_every_link_leads_somewhere(report: tuple[Found, Content, Path]) -> None:
    outline = Outline(report[2].read_text())
    assert len(outline.ids) == len(set(outline.ids))
    assert len(outline.links) > 10
    assert set(outline.links) <= set(outline.ids)
    assert outline.scripts == 1  # our own


def test_nothing_in_the_page_is_an_address_or_an_inline_style(report: tuple[Found, Content, Path]) -> None:
    text = report[2].read_text()
    assert not re.search(r"https?:|//\w", re.sub(r"base64,[^\"]*|^//.*$|// [A-Z].*", "", text))
    assert not re.search(r"<[^>]* style=", text)
    assert "refresh" not in text


def test_a_live_page_refreshes_itself(report: tuple[Found, Content, Path]) -> None:
    found, content, _ = report
    text = page(found, content, every=7)
    assert '<meta http-equiv="refresh" content="7">' in text
    assert "every 7 seconds" in text


def test_the_order_is_title_summary_runs(report: tuple[Found, Content, Path]) -> None:
    text = report[2].read_text()
    places = [text.index(part) for part in ("<h1>2 runs", "<h2>Summary", "<h2>a</h2>", "<h2>b</h2>")]
    assert places == sorted(places)
    assert "2 runs, 6 rows of 3 seeds, 5 of them finished." in text
    assert "<li>GEM + random directions: 1 of 3 tasks" in text


def test_the_browser_has_nothing_to_complain_of(browser: Any) -> None:
    assert browser.get_log("browser") == []
    entries = browser.execute_script("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert [name for name in entries if not name.startswith("data:")] == []


def test_the_policy_forbids_every_other_script(browser: Any) -> None:
    browser.execute_script(
        "const s = document.createElement('script'); s.textContent = 'window.foreign = 1'; document.body.append(s)"
    )
    assert browser.execute_script("return window.foreign") is None
    assert "Content Security Policy" in browser.get_log("browser")[0]["message"]


def test_an_evil_label_is_shown_as_text(browser: Any) -> None:
    cells = browser.find_elements("css selector", "#run-1-results tbody th")
    assert EVIL in [cell.text for cell in cells]
    shown = browser.execute_script("return [...document.querySelectorAll('svg text')].map((own) => own.textContent)")
    assert EVIL in shown


def test_heat_maps_and_curves_are_drawn_and_described(browser: Any) -> None:
    drawn = browser.execute_script(
        "return [...document.querySelectorAll('#run-1-matrices svg')].map((svg) => "
        "[svg.getAttribute('aria-label'), svg.querySelectorAll('image').length, svg.getBoundingClientRect().width])"
    )
    assert len(drawn) == 3 + 2
    assert all(label.startswith("Heat map of the accuracy matrix") for label, _, _ in drawn)
    assert all(images >= 2 and width > 200 for _, images, width in drawn)
    assert len(browser.find_elements("css selector", "#run-2-stream svg")) == 2


def test_a_click_on_a_heading_sorts_up_down_and_back(browser: Any) -> None:
    def column(index: int) -> list[float | None]:
        return browser.execute_script(  # type: ignore[no-any-return]
            "return [...document.querySelectorAll('#run-1-results tbody tr')].map((row) => "
            "'value' in row.cells[arguments[0]].dataset ? Number(row.cells[arguments[0]].dataset.value) : null)",
            index,
        )

    heading = browser.find_elements("css selector", "#run-1-results thead th")[1]
    button = heading.find_element("tag name", "button")
    original = column(1)
    assert heading.get_attribute("aria-sort") is None
    seen = []
    for state in ("ascending", "descending", None):
        browser.execute_script("arguments[0].click()", button)
        assert heading.get_attribute("aria-sort") == state
        seen.append(column(1))
    assert seen == [sorted(original), sorted(original, reverse=True), original]  # type: ignore[type-var]
    last = browser.find_elements("css selector", "#run-1-results thead th button")[-1]
    browser.execute_script("arguments[0].click()", last)
    first, second, empty = column(6)
    assert empty is None  # the first row has no difference to itself
    assert first <= second
    assert heading.get_attribute("aria-sort") is None


def test_the_switch_turns_page_and_pictures_dark(browser: Any) -> None:
    def colours() -> tuple[str, str]:
        return tuple(  # type: ignore[return-value]
            browser.execute_script(
                "return [getComputedStyle(document.body).backgroundColor, "
                "getComputedStyle(document.querySelector('figure svg text')).fill]"
            )
        )

    before = colours()
    browser.find_element("id", "theme").click()
    after = colours()
    browser.find_element("id", "theme").click()
    assert before[0] != after[0]
    assert before[1] != after[1]
    assert colours() == before


def test_a_phone_scrolls_tables_and_not_the_page(browser: Any) -> None:
    size = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        widths = browser.execute_script(
            "const box = document.querySelector('#run-1-results .scroll');"
            "return [document.documentElement.scrollWidth, box.clientWidth, box.scrollWidth]"
        )
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    page_width, box, table = widths
    assert page_width <= 390
    assert box < 390 < table


def test_the_contents_scroll_on_a_phone(browser: Any) -> None:
    size = {"width": 420, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        browser.get(browser.current_url)
        shown, whole, moved = browser.execute_script(
            "const bar = document.querySelector('nav .links');"
            "for (let more = 0; more < 9; more++) bar.append(bar.lastChild.cloneNode(true));"
            "bar.scrollLeft = 9999; return [bar.clientWidth, bar.scrollWidth, bar.scrollLeft]"
        )
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.get(browser.current_url)
    assert shown < 420 < whole
    assert moved == pytest.approx(whole - shown, abs=1)
