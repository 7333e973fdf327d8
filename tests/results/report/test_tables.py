import csv
import io

import pytest

from gradcast.results.report.tables import Cell, Table, estimate, figure
from gradcast.results.statistics import Interval, interval

VALUES = interval([0.5, 0.6, 0.7])


@pytest.fixture
def table() -> Table:
    rows = [
        [Cell("A & B_1", place=0), estimate(VALUES, 100), Cell("50 %")],
        [Cell("<script>", place=1), estimate(None), figure(-3.5, ".1f")],
    ]
    return Table("results", "All <of> it", ["row", "ACC (%)", "more"], rows)


def test_csv_has_full_numbers_and_columns_for_the_interval(table: Table) -> None:
    head, first, second = csv.reader(io.StringIO(table.csv()))
    assert head == ["row", "ACC (%)", "ACC (%) low", "ACC (%) high", "more"]
    assert first[0] == "A & B_1"
    assert [float(x) for x in first[1:4]] == pytest.approx([60, 100 * VALUES.low, 100 * VALUES.high])
    assert first[4] == "50 %"
    assert second == ["<script>", "", "", "", "-3.5"]


def test_latex_is_escaped(table: Table) -> None:
    lines = table.latex().splitlines()
    assert lines[1:4] == [r"\begin{tabular}{lrr}", r"\toprule", r"row & ACC (\%) & more \\"]
    assert lines[5].startswith(r"A \& B\_1 & 60.00 $\pm$ ")
    assert lines[5].endswith(r" & 50 \% \\")
    assert lines[6] == r"\textless{}script\textgreater{} &  & $-$3.5 \\"
    assert lines[-1] == r"\end{tabular}"


def test_html_escapes_and_tells_the_browser_what_to_sort_by(table: Table) -> None:
    text = table.html()
    assert "<script>" not in text
    assert "&lt;script&gt;" in text
    assert f'data-value="{100 * VALUES.mean!r}"' in text
    assert 'data-value="-3.5">−3.5</td>' in text
    assert '<span class="half"> ± ' in text
    assert text.count('<button type="button">') == 3
    assert 'aria-label="All &lt;of&gt; it"' in text


def test_one_seed_has_no_interval() -> None:
    cell = estimate(Interval(0.5, float("-inf"), float("inf"), 1))
    assert (cell.text, cell.value, cell.low, cell.high) == ("0.5000", 0.5, None, None)


@pytest.mark.parametrize("value", [None, "12", True, float("nan"), float("inf"), [1]])
def test_what_is_no_number_is_an_empty_cell(value: object) -> None:
    assert figure(value, ".1f") == Cell()


def test_large_numbers_have_no_exponent() -> None:
    assert figure(5836.4, ".3g").text == "5,836"
    assert figure(1.68e-7, ".3g").text == "1.68e-07"
    assert figure(18731, ",.0f").text == "18,731"
