from pathlib import Path

import typer
from typer.testing import CliRunner

from gradcast.cli.report_command import report
from gradcast.errors import GradcastError
from tests.results.report.copies import copy_of_run

app = typer.Typer()
app.command()(report)


def test_the_page_lies_in_the_directory_and_damage_is_told(tmp_path: Path) -> None:
    run = copy_of_run(tmp_path / "digits-1")
    (run.seed("random", 0) / "metrics.jsonl").write_text("[/x]")
    done = CliRunner().invoke(app, [str(run.path)], env={"COLUMNS": "80"})
    assert done.exit_code == 2, done.output
    page = (run.path / "report.html").read_text()
    assert done.stdout.startswith(f"Report: {run.path / 'report.html'} (0.")
    assert (run.path / "report-files" / "digits-1" / "results.csv").is_file()
    (warning,) = done.stderr.splitlines()
    assert warning.startswith("warning: What training told of seed 0 of 'GEM + random directions' is missing, its ")
    assert "GEM + random directions&#x27; is missing, its accuracies are not: " in page


def test_another_place(tmp_path: Path) -> None:
    copy_of_run(tmp_path / "runs" / "digits-1")
    out = tmp_path / "new" / "mine.html"
    done = CliRunner().invoke(app, [str(tmp_path / "runs"), "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert out.read_text().startswith("<!doctype html>")
    assert (tmp_path / "new" / "mine-files" / "digits-1" / "results.tex").is_file()
    assert not list((tmp_path / "runs").glob("report*"))


def test_a_folder_without_runs(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, [str(tmp_path)])
    assert isinstance(done.exception, GradcastError)
    assert str(done.exception).startswith(f"there is no run in {tmp_path}; ")
