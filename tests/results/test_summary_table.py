from dataclasses import replace

from gradcast.results.summary_table import as_html, as_text, cells, headings, tables, title
from tests.trained_runs import class_incremental, few_labels, finished


def test_cells_are_the_numbers_of_a_row_under_their_headings() -> None:
    rows = finished()[1]
    assert headings(rows) == ["ACC (%)", "BWT", "FWT", "against base"]
    assert cells(rows[0])[0].startswith(f"{100 * rows[0].over_seeds('acc').mean:.2f} ± ")
    assert cells(rows[0])[3] == ""
    assert cells(rows[1])[3] != ""
    assert title(rows) == "3 seeds, mean ± 95 % confidence interval"
    few = few_labels()[1]
    assert headings(few) == ["last error (%)", "best error (%)", "gain (points)"]
    assert all(len(cells(row)) == len(headings(few)) for row in few)


def test_the_text_fits_eighty_columns_whatever_the_labels() -> None:
    rows = [replace(row, label=f"{row.label} with a very long label " * 3) for row in finished()[1]]
    lines = as_text(rows, ["a sentence " * 20]).splitlines()
    assert max(map(len, lines)) <= 80
    assert sum("±" in line for line in lines) == 1 + len(rows)
    assert lines == [line.rstrip() for line in lines]


def test_the_html_is_escaped_and_self_contained() -> None:
    rows = [replace(row, label="<script>alert(1)</script> & co") for row in finished()[1]]
    text = as_html(rows, ["<b>so</b>"])
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; co" in text
    assert "<p>&lt;b&gt;so&lt;/b&gt;</p>" in text
    assert not any(part in text for part in ("<script", "src=", "href=", "<link", "<style"))
    assert text.count("<tr>") == 1 + len(rows)


def test_rows_without_the_task_have_a_table_of_their_own() -> None:
    rows = class_incremental()[1]
    first, second = tables(rows)
    assert first == rows
    assert headings(second) == ["ACC (%)", "BWT", "forgetting", "against base"]
    text = as_text(rows, [])
    assert "Task unknown: 2 seeds, mean" in text
    assert max(map(len, text.splitlines())) <= 80
    assert as_html(rows, []).count("<table>") == 2
