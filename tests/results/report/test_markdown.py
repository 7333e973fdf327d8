from pathlib import Path

from gradcast.results.quick import QUICK_LOOK
from gradcast.results.report import number, verdicts, write_report
from tests.results.report.copies import as_quick_look, copy_of_run, with_portrait
from tests.trained_runs import few_labels, finished


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


def test_pictures_of_a_quick_look_say_so(tmp_path: Path) -> None:
    directory, (_, results) = copy_of_run(tmp_path / "run"), finished()
    with_portrait(directory, "base")
    made = []
    for quick in (False, True):
        if quick:
            as_quick_look(directory)
        write_report(directory, results)
        made.append({path.name: path.read_bytes() for path in directory.path.glob("*.png")})
    plain, marked = made
    assert plain.keys() == marked.keys() == {"accuracy-matrix.png", "signal.png", "features.png"}
    assert all(plain[name] != marked[name] for name in plain)
    assert (directory.path / "report.md").read_text().splitlines()[2].startswith(QUICK_LOOK)


def test_few_labels_have_errors_and_one_picture_of_their_course() -> None:
    directory, results = few_labels()
    write_report(directory, results)
    text = (directory.path / "report.md").read_text()
    assert "|  | last error (%) | best error (%) |" in text
    assert f"| MG | {number(results[1].diagnostics['last_error'], digits=2)} |" in text
    assert "## Paired differences in accuracy" in text
    right = 100 * results[1].diagnostics["pseudo_accuracy_last_tenth"].mean
    assert f"| unlabelled images labelled rightly, in the last tenth (%) |  | {right:.3g} |" in text
    assert not [word for word in ("BWT", "ACC", "matri") if word in text]
    assert "](course.png)" in text
    names = {path.name for path in directory.path.glob("*.png")}
    assert names == {"course.png"}


def test_the_report_tells_the_size_of_h() -> None:
    report = (finished()[0].path / "report.md").read_text()
    assert "\n\nThe gradient learner h has 1,824 parameters.\n" in report
