"""Writes the measured tables of docs/benchmarks.md from the files of src/gradcast/bench/measured.

    python tools/render_benchmarks.py

A file is what ``gradcast bench --json`` prints, one for each machine. The page says where a table stands, by machine
and part: ``<!-- measured: h200 steps -->`` to ``<!-- end -->``. The rest of the page is written by hand.
"""

import re
from pathlib import Path

from gradcast.bench.bench_result import measured
from gradcast.bench.bench_tables import Part, machine_in_words, parts

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
PLACE = re.compile(r"^<!-- measured: (\S+ \S+) -->\n.*?^<!-- end -->$", re.DOTALL | re.MULTILINE)


def page(text: str) -> str:
    """The page with its tables as they were measured."""
    known = contents()

    def filled(place: re.Match[str]) -> str:
        if place[1] not in known:
            raise SystemExit(f"{place[1]} was not measured; there are {', '.join(known)}")
        return f"<!-- measured: {place[1]} -->\n\n{known[place[1]]}\n\n<!-- end -->"

    return PLACE.sub(filled, text)


def contents() -> dict[str, str]:
    """All that was measured, by machine and part; the machine itself is one."""
    found: dict[str, str] = {}
    for machine, own in measured().items():
        found[f"{machine} machine"] = f"{machine_in_words(own)}."
        found |= {f"{machine} {name}": markdown(part) for name, part in parts(own).items()}
    return found


def markdown(part: Part) -> str:
    """Title, table and remarks."""
    rows = [part.headings, ["---"] * len(part.headings), *part.rows] if part.rows else []
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return "\n\n".join(own for own in (f"**{part.title}**", table, " ".join(part.remarks)) if own)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
