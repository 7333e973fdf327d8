import json
from pathlib import Path

from tests.cli.process import ALONE, called
from tests.trained_runs import SMALL

SET = f"set = {[*SMALL, 'stream.tasks=2']}".replace("'", '"')


def test_a_suite_prints_one_table_and_what_failed(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        f'[[run]]\nwhat = "digits"\n{SET}\nseeds = 1\n'
        '[[run]]\nwhat = "digits"\nset = ["stream.samples=40000"]\nseeds = 1\n'
    )
    found = called("suite", "mine.toml", *ALONE, "--device", "cpu", cwd=tmp_path)
    assert found.returncode == 2
    assert "error: run 2 (digits): task 0 has 1297 training images" in found.stderr
    assert "GEM + random directions" in " ".join(found.stdout.split())
    assert "Report: runs/suite-mine/report.html" in found.stdout
    again = json.loads(called("suite", "mine.toml", *ALONE, "--device", "cpu", "--json", cwd=tmp_path).stdout)
    assert [row["name"] for row in again["parts"]["run 1 (digits)"]["rows"]] == ["base", "predicted", "random"]
    assert len(again["failed"]) == 1


def test_a_mistake_in_the_file_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('[[run]]\nwat = "digits"\n')
    found = called("suite", "mine.toml", cwd=tmp_path)
    assert found.returncode == 2
    assert "did you mean 'run.what'" in found.stderr
