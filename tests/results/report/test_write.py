import re
from pathlib import Path

import pytest
from PIL import Image

from gradcast.errors import GradcastError
from gradcast.results.quick import QUICK_LOOK
from gradcast.results.report.read import read_runs
from gradcast.results.report.write import compose, files_beside, write_files, write_html
from gradcast.runs.run import run
from tests.results.report.copies import as_quick_look, copy_of_run, with_portrait
from tests.trained_runs import small


def test_page_and_files_are_a_function_of_the_run_alone(tmp_path: Path) -> None:
    written = []
    for place in ("x", "y/z"):
        copy_of_run(tmp_path / place / "digits-1")
        out = tmp_path / place / "page" / "report.html"
        write_html(read_runs(tmp_path / place / "digits-1"), out)
        files = sorted(path for path in out.parent.rglob("*") if path.is_file())
        written.append({str(path.relative_to(out.parent)): path.read_bytes() for path in files})
    assert written[0] == written[1]
    folder = tmp_path / "x" / "page" / "report-files" / "digits-1"
    for table in ("results", "differences", "diagnostics", "cost"):
        assert (folder / f"{table}.csv").read_text().count("\n") >= 3
        assert r"\toprule" in (folder / f"{table}.tex").read_text()
    pictures = sorted(path.stem for path in folder.glob("*.png"))
    assert pictures == sorted(path.stem for path in folder.glob("*.svg"))
    assert {"paired-differences", "accuracy-matrix-base", "curve-loss"} <= set(pictures)
    with Image.open(folder / "curve-loss.png") as picture:
        assert picture.width > 600


@pytest.mark.parametrize("few", [False, True])
def test_every_file_of_a_quick_look_says_so(tmp_path: Path, few: bool) -> None:
    directory = copy_of_run(tmp_path / "run", few=few)
    base = directory.spec.rows[0].name
    with_portrait(directory, base)
    files = []
    for quick in (False, True):
        if quick:
            as_quick_look(directory)
        write_html(read_runs(directory.path), tmp_path / "report.html")
        made = sorted((tmp_path / "report-files" / "run").iterdir())
        assert all((QUICK_LOOK in path.read_text()) is quick for path in made if path.suffix != ".png")
        files.append({path.name: path.read_bytes() for path in made if path.suffix == ".png"})
    plain, marked = files
    assert plain.keys() == marked.keys() >= {"paired-differences.png", "curve-loss.png"}
    assert all(plain[name] != marked[name] for name in plain)


def test_one_task_and_one_seed_are_enough(tmp_path: Path) -> None:
    directory, _ = run(small("stream.tasks=1", "seeds=[5]"), out=tmp_path, device="cpu")
    write_html(read_runs(directory.path), tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert "nothing was learned (ACC 7.6 %, chance is 10.0 %)" in text
    assert "1 run, 3 rows of 1 seed, all finished." in text
    assert "nan" not in (tmp_path / "report-files" / directory.path.name / "results.csv").read_text()
    assert not re.search(r"\binf\b", text)


def test_the_folder_is_named_after_the_page() -> None:
    assert files_beside(Path("a/mine.html")) == Path("a/mine-files")


def test_a_folder_is_no_page(tmp_path: Path) -> None:
    copy_of_run(tmp_path / "digits-1")
    with pytest.raises(GradcastError, match=r"is a folder; name a file, as in --out .*report\.html"):
        write_html(read_runs(tmp_path), tmp_path)


def test_files_of_several_runs_lie_apart(tmp_path: Path) -> None:
    for name in ("a", "b"):
        copy_of_run(tmp_path / name)
    found = read_runs(tmp_path)
    content = [[section for section in own if section.name == "cost"] for own in compose(found)]
    write_files(found, content, tmp_path / "report.html")
    assert sorted(path.parent.name for path in tmp_path.rglob("cost.csv")) == ["a", "b"]
