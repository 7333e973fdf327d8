"""Adds rows that other machines have trained to the measured tables of the package.

    python tools/merge_results.py RESULT.json ...      # result.json of `gradcast reproduce`, in any order
    python tools/merge_results.py --commit 0123456789ab RESULT.json ...   # of a copy of the code without its history
    python tools/render_results.py                     # then the pages

A row that a file has trained takes the place of the table's row of that name, with all that the file says of its
seeds; where all seeds of a row diverged, the table says so. Everything else stays as it is, and so does a row of more
seeds: rows that a file only compares with may have a part of the table's. A course of another length (``--steps``) has
a file of its own, such as E6-15200.json.
"""

import json
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from pathlib import Path
from typing import Any

from gradcast.reproduce.measured_tables import folder
from gradcast.results.sizes import POOL_IMAGES

STEPS = "schedule.steps"
DIVERGED = "diverged"  # begins the state of rows of which no seed is left


def main(arguments: list[str]) -> None:
    """One file after another."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="RESULT.json")
    parser.add_argument("--commit", default="", help="that trained the rows which name none")
    options = parser.parse_args(arguments)
    for name in options.files:
        found = json.loads(Path(name).read_text(encoding="utf-8"))
        if options.commit:
            name_commit(found, options.commit)
        target = folder() / f"{table_name(found, name)}.json"
        table = json.loads(target.read_text(encoding="utf-8")) if target.exists() else found
        merge(table, found, name)
        target.write_text(json.dumps(table, indent=2) + "\n", encoding="utf-8")


def name_commit(found: dict[str, Any], commit: str) -> None:
    """In the origins that name none, in place."""
    for row in found["rows"]:
        origins = row["origin"].split("; ") if row["origin"] else []
        row["origin"] = "; ".join(own if ", commit " in own else f"{own}, commit {commit}" for own in origins)


def table_name(found: dict[str, Any], name: str) -> str:
    """Of the file in the package."""
    course = dict(setting.split("=", 1) for setting in found["settings"] if setting.startswith("schedule."))
    if found["quick"] or len(course) < len(found["settings"]) or (course and STEPS not in course):
        raise SystemExit(f"{name} is a quick look or has other settings; only the table itself is measured")
    return "-".join([found["id"], *([course[STEPS]] if course else [])])


def merge(table: dict[str, Any], found: dict[str, Any], name: str) -> None:
    """In place; arithmetic and seeds have to be those of the table."""
    if found["dtype"] != table["dtype"]:
        raise SystemExit(f"{name} was trained in {found['dtype']}, the table in {table['dtype']}")
    if found["settings"] != table["settings"]:
        raise SystemExit(f"{name} has another course than the table: {', '.join(found['settings'])}")
    before = {row["name"]: row["trained"] for row in table["rows"]}
    trained = {row["name"]: row for row in found["rows"] if row["trained"] and not _part(row, before)}
    lost = {row["name"]: row for row in found["rows"] if row.get("state", "").startswith(DIVERGED)}
    rows = [trained.pop(row["name"], row if row["trained"] else lost.get(row["name"], row)) for row in table["rows"]]
    table["rows"] = rows + list(trained.values())
    table["seeds"] = sorted({*table["seeds"], *found["seeds"]})
    fill_pools([row["trained"] for row in table["rows"] if row["trained"]])


def _part(row: dict[str, Any], before: dict[str, Any]) -> bool:
    """Whether the table has all seeds of what was trained for this row, and others."""
    own, known = row["trained"], before.get(row["name"]) or {"cell": "", "seeds": {}}
    return bool(own["cell"] == known["cell"] and own["seeds"].keys() < known["seeds"].keys())


def fill_pools(trained: list[dict[str, Any]]) -> None:
    """Rows that do not say how many images their pool had, beside rows that saw the same data and do."""
    known = {own["data"]: own[POOL_IMAGES] for own in trained if own["data"] and own.get(POOL_IMAGES)}
    for own in trained:
        if own["data"] in known and not own.get(POOL_IMAGES):
            own[POOL_IMAGES] = known[own["data"]]


if __name__ == "__main__":
    main(sys.argv[1:])
