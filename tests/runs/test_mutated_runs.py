"""Run directories that somebody damaged: no traceback, no hang, no number that is silently another.

All 500 mutations with GRADCAST_MUTATIONS=500; some of them without.
"""

import os
import random
import shutil
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest
from matplotlib.figure import Figure

from gradcast.errors import GradcastError
from gradcast.results import result
from gradcast.results.comparison import compare
from gradcast.results.report.read import read_runs
from gradcast.results.result import RowResult
from gradcast.runs.checkpoint.keeper import Safety
from gradcast.runs.directory import RunDirectory
from gradcast.runs.run import run
from gradcast.specs.spec import Spec
from tests.mutations import damaged, edited
from tests.runs.checkpoint.scene import Cut, Cutting
from tests.trained_runs import small

COUNT = int(os.environ.get("GRADCAST_MUTATIONS", "30"))
SAFETY = Safety(0, 3)
Numbers = dict[str, list[str]]


def spec() -> Spec:
    whole = small("stream.tasks=2", "stream.samples=20", "seeds=[0, 1]")
    return whole.model_copy(update={"rows": whole.rows[:2]})


@cache
def originals() -> tuple[Path, Path, Numbers]:
    """A finished run, one that was cut off in its second row, and their numbers."""
    done, half = Path(mkdtemp()), Path(mkdtemp())
    numbers = told(run(spec(), out=done, device="cpu", safety=SAFETY)[1])
    with pytest.raises(Cut):
        run(spec(), out=half, device="cpu", safety=SAFETY, display=Cutting(7))
    return done, half, numbers


def told(rows: list[RowResult]) -> Numbers:
    """All that results say in numbers."""
    found = {f"{row.name} acc": row.acc() for row in rows}
    courses = {f"{row.name} {name}": own.ravel().tolist() for row in rows for name, own in row.courses.items()}
    rates = {f"{row.name} {name}": [own.mean] for row in rows for name, own in row.diagnostics.items()}
    return {name: [f"{value:.9g}" for value in own] for name, own in (found | courses | rates).items()}


def mutate(out: Path, chance: random.Random, mine: Path) -> None:
    """One fault in a file or folder."""
    places = [path for path in sorted(out.rglob("*")) if path.is_file() and not path.name.endswith(".lock")]
    file = chance.choice(places)
    content = file.read_bytes()
    match chance.randrange(9):
        case 0:
            file.write_bytes(content[: len(content) // 2])
        case 1:
            file.unlink()
        case 2:
            file.unlink()
            file.symlink_to(mine)
        case 3:
            file.unlink()
            file.mkdir()
        case 4:
            file.write_bytes(chance.choice(places).read_bytes())
        case 5 if file.parent != out:
            shutil.rmtree(file.parent)
            file.parent.symlink_to(mine.parent)
        case 6:
            file.write_bytes(next(damaged(content, 1, chance.randrange(10**9))))
        case _:
            file.write_bytes(next(edited(content, 1, chance.randrange(10**9))))


def readings(out: Path) -> Iterator[Callable[[], Numbers | None]]:
    """What anybody may do with it; numbers, where there are any."""
    (path,) = (place for place in out.glob("*") if place.name.startswith("digits-"))

    def report() -> Numbers | None:
        found = read_runs(path)
        return None if found.damage else told(found.runs[0].results)

    def compared() -> None:
        compare(path / "base", path)

    yield report
    yield compared
    yield lambda: told(result.read(RunDirectory(path)))
    yield lambda: told(run(spec(), out=out, device="cpu", safety=SAFETY)[1])


@pytest.mark.parametrize("kind", ["finished", "unfinished"])
def test_mutated_runs_are_read_the_same_or_refused(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done, half, numbers = originals()
    monkeypatch.setattr(Figure, "savefig", lambda *_, **__: None)  # pictures show what the numbers say
    mine = tmp_path / "mine" / "file"
    mine.parent.mkdir()
    mine.write_text("mine")
    for number in range(COUNT // 2):
        out = tmp_path / f"{kind}-{number}"
        shutil.copytree(done if kind == "finished" else half, out)
        mutate(out, random.Random(f"{kind} {number}"), mine)
        for read in readings(out):
            try:
                with warnings.catch_warnings(action="ignore"):
                    found = read()
            except (GradcastError, OSError):
                continue
            for name, values in (found or {}).items():
                assert values == numbers[name], (number, name)
        assert [path.name for path in mine.parent.iterdir()] == ["file"]
        assert mine.read_text() == "mine"
        shutil.rmtree(out)
