from gradcast.report import number, verdicts, write_report
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


def test_pictures_are_there_where_the_report_says_so() -> None:
    directory, results = finished()
    write_report(directory, results)
    text = (directory.path / "report.md").read_text()
    for name in ("accuracy-matrix.png", "signal.png"):
        assert f"]({name})" in text
        assert (directory.path / name).read_bytes().startswith(b"\x89PNG")
