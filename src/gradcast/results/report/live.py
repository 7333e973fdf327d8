"""The report while runs are going: written anew whenever one of them has come further."""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from gradcast.results.report.read import Found, find, read_runs
from gradcast.results.report.summary import standing
from gradcast.results.report.write import Content, compose, write_files, write_page

# The files of a run that tell how far it is.
GROWING = ("spec.toml", "*/env.json", "*/seed-*/accuracy.csv", "*/seed-*/metrics.jsonl")
Stamp = list[tuple[Path, int, int]]


def follow(
    folder: Path,
    out: Path,
    *,
    every: int,
    say: Callable[[str], None],
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Until every row is finished; ``say`` hears a sentence an update. However it ends, the page rests then."""
    found: Found | None = None
    content: Content = []
    seen: Stamp | None = None
    try:
        while found is None or not finished(found):
            if seen is not None:
                sleep(every)
            now = stamp(folder)
            if now and now != seen:
                found = read_runs(folder, found.runs if found else ())
                content = compose(found)
                write_page(found, content, out, every)
                say(progress(found))
            elif seen is None:
                say(f"waiting for a run in {folder}")
            seen = now
        write_files(found, content, out)
    finally:
        if found is not None and content:
            write_page(found, content, out)


def stamp(folder: Path) -> Stamp:
    """Changes when a run comes further; empty before there is one."""
    found: Stamp = []
    for path in (path for run in find(folder) for pattern in GROWING for path in sorted(run.glob(pattern))):
        with suppress(FileNotFoundError):  # a row that is trained again is emptied first
            facts = path.stat()
            found.append((path, facts.st_mtime_ns, facts.st_size))
    return found


def finished(found: Found) -> bool:
    """Whether nothing is left to train."""
    return not any(run.unfinished for run in found.runs)


def progress(found: Found) -> str:
    """How far all runs are, in a line."""
    total = sum(len(run.spec.rows) for run in found.runs)
    done = sum(row.finished for run in found.runs for row in run.rows)
    begun = [row for run in found.runs for row in run.unfinished if max(row.done) >= 0]
    return "; ".join([f"{done} of {total} rows finished", *(f"{row.label}: {standing(row)}" for row in begun)])
