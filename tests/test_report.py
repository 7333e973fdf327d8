from gradcast.report import number, verdicts, write_report
from gradcast.statistics import Interval
from tests.runs import finished


def test_report_says_verdict_then_numbers() -> None:
    directory, results = finished()
    write_report(directory, results)
    text = (directory.path / "report.md").read_text()
    assert text.index("## Verdict") < text.index("## Results") < text.index("## What the signal did")
    for result in results:
        assert f"| {result.label} | {number(result.over_seeds('acc'), 100)} |" in text
    for sentence in verdicts(results):
        assert f"- {sentence}" in text
    widths = {line.count("|") for line in text.splitlines() if line.startswith("| GEM")}
    assert len(widths) == 2  # the results and the differences


def test_numbers() -> None:
    assert number(Interval(0.8123, 0.80, 0.83, 5), 100) == "81.23 ± 1.50"
    assert number(Interval(0.8123, float("-inf"), float("inf"), 1), 100) == "81.23"
    assert number(Interval(-0.01234, -0.02, 0.0, 3)) == "-0.0123 ± 0.0100"


def test_one_row_has_no_comparison() -> None:
    assert verdicts(finished()[1][:1]) == ["one row, nothing to compare it with"]
