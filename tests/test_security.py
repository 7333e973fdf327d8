"""Nothing that is read runs code, steers a page, a table or a terminal, or reaches beyond its folder."""

import ast
import csv
import io
import os
import pickle
import re
import shutil
import sys
import warnings
from contextlib import suppress
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import torch
from markdown_it import MarkdownIt

import gradcast
from gradcast.errors import GradcastError
from gradcast.results import result
from gradcast.results.comparison import compare
from gradcast.results.report import write_report
from gradcast.results.report.markup import tag
from gradcast.results.report.read import read_runs
from gradcast.results.report.tables import Cell, Table
from gradcast.results.report.write import write_html
from gradcast.runs.directory import RunDirectory
from gradcast.specs.text import load, parse
from tests.data.test_pickles import Call
from tests.results.report.copies import copy_of_run, relabel
from tests.test_fuzz import READERS, Reader

SOURCES = sorted(Path(gradcast.__file__).parent.rglob("*.py"))
EVIL = (
    "<script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "</title></text></svg></script><iframe srcdoc=x>",
)


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_a_pickle_in_place_of_any_file_is_never_obeyed(reader: Reader, tmp_path: Path) -> None:
    mark = tmp_path / "made by the pickle"
    path, read = reader.scene(tmp_path)
    order = Call(os.mkdir, (str(mark),))
    for content in (pickle.dumps(order, 0), pickle.dumps({"data": order}, 2), pickle.dumps([order], 4)):
        path.write_bytes(content)
        with warnings.catch_warnings(action="ignore"), suppress(GradcastError):
            read()
        assert not mark.exists()


def test_the_pickle_would_have_been_obeyed(tmp_path: Path) -> None:
    pickle.loads(pickle.dumps(Call(os.mkdir, (str(tmp_path / "made"),))))
    assert (tmp_path / "made").is_dir()


def test_no_array_of_objects_hides_in_a_cache(tmp_path: Path) -> None:
    mark, file = tmp_path / "made by the pickle", tmp_path / "x.npy"
    reader = next(reader for reader in READERS if reader.name == "cache")
    path, read = reader.scene(tmp_path)
    np.save(file, np.array([Call(os.mkdir, (str(mark),))], dtype=object), allow_pickle=True)
    path.write_bytes(file.read_bytes())
    with pytest.warns(UserWarning, match="is damaged .* and is made anew"):
        read()
    assert not mark.exists()


def calls() -> list[tuple[str, str, ast.Call]]:
    """Every call in the package: file, dotted name, and the call."""
    found = []
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                found.append((path.name, ast.unparse(node.func), node))
    return found


def test_nothing_in_the_package_unpickles_or_evaluates() -> None:
    named = calls()
    assert len(named) > 2000
    forbidden = (
        r"(builtins\.)?(eval|exec|compile)|(c?[pP]ickle|marshal|shelve|joblib|dill)\.\w*(load|open)\w*|os\.system"
    )
    assert [(file, name) for file, name, _ in named if re.fullmatch(forbidden, name)] == []
    flags = {"torch.load": ("weights_only", "True"), "np.load": ("allow_pickle", "False")}
    loads = [(file, name, call) for file, name, call in named if name in flags]
    assert sorted({file for file, _, _ in loads}) == ["array_file.py", "arrays.py", "weights.py"]
    for _, name, call in loads:
        assert flags[name] in [(word.arg, ast.unparse(word.value)) for word in call.keywords]
    assert [file for file, name, _ in named if name.endswith("Unpickler")] == ["pickles.py"]
    assert [file for file, name, _ in named if name.endswith(("import_module", "__import__"))] == ["imported.py"]
    assert {file for file, name, _ in named if "entry_points" in name} == {"entry.py"}  # of what somebody installed


class Elements(HTMLParser):
    """Elements with the names of their attributes, and all text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, tuple[str, ...]]] = []
        self.links: set[str] = set()
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, tuple(name for name, _ in attrs)))
        self.links |= {value or "" for name, value in attrs if name in ("href", "src", "xlink:href")}

    def handle_data(self, data: str) -> None:
        self.text += data


def named(folder: Path, names: tuple[str, str, str]) -> RunDirectory:
    """The small run with these names as the title, as labels, in env.json, and as part of its folder's name."""
    run = copy_of_run(folder / f"digits-{names[1].replace('/', '')}")
    quoted = [name.replace('"', '\\"') for name in names]
    relabel(run, "GEM + random directions", quoted[0])
    relabel(run, "GEM + predicted gradients", quoted[1])
    relabel(run, "GEM", quoted[2])
    file = run.path / "spec.toml"
    file.write_text(re.sub("(?m)^title = .*$", lambda _: f'title = "{quoted[0]}"', file.read_text()))
    environment = run.path / "base" / "env.json"
    environment.write_text(environment.read_text().replace('"cpu"', '"' + names[2] + '"'))
    return run


def test_names_never_become_parts_of_the_page(tmp_path: Path) -> None:
    pages = []
    for place, names in (("plain", ("one", "two", "three")), ("evil", EVIL)):
        named(tmp_path / place, names)
        write_html(read_runs(tmp_path / place), tmp_path / place / "report.html")
        pages.append(Elements((tmp_path / place / "report.html").read_text()))
    plain, evil = pages
    assert evil.found == plain.found  # the same elements with the same attributes
    assert {link[:1] for link in evil.links} <= {"#", "d"}
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in evil.links)
    assert all(name in evil.text for name in EVIL)
    for file in (tmp_path / "evil").rglob("report-files/**/*.svg"):
        assert not re.search("<(script|img|iframe)", file.read_text())


def test_a_name_cannot_end_an_attribute() -> None:
    (found,) = Elements(tag("a", EVIL[0], aria_label=EVIL[1], href="#x")).found
    assert found == ("a", ("aria-label", "href"))


def test_names_never_become_parts_of_the_markdown_report(tmp_path: Path) -> None:
    tokens = []
    for place, names in (
        ("plain", ("one", "two", "three")),
        ("evil", (EVIL[0], EVIL[1], "![x](http://y/z.png) [a](b) `c` |")),
    ):
        run = named(tmp_path / place, names)
        write_report(run, result.read(run))
        parsed = MarkdownIt("commonmark", {"html": True}).enable("table").parse((run.path / "report.md").read_text())
        inner = [child.type for token in parsed for child in token.children or []]
        tokens.append(([token.type for token in parsed], [kind for kind in inner if kind != "text"]))
    assert tokens[0] == tokens[1]


@pytest.mark.parametrize("text", ["=1+1", "+1", "-x", "@SUM(A1)", " =HYPERLINK(1)", "=cmd|' /C calc'!A0"])
def test_text_is_never_a_formula_in_a_spreadsheet(text: str) -> None:
    table = Table("t", "title", ["row", text], [[Cell(text), Cell("-0.5", -0.5)]])
    head, row = csv.reader(io.StringIO(table.csv()))
    assert head[1] == row[0] == f"'{text}"
    assert float(row[1]) == -0.5


def test_a_label_is_no_order_to_latex() -> None:
    label = r"[3pt] \input{/etc/passwd} *% $x$ ^^41 ~"
    last = Table("t", "title", ["row"], [[Cell(label)]]).latex().splitlines()[5]
    assert last == (
        r"{[}3pt] \textbackslash{}input\{/etc/passwd\} {*}\% \$x\$ \textasciicircum{}\textasciicircum{}41"
        r" \textasciitilde{} \\"
    )


@pytest.mark.parametrize(
    "name",
    [
        "../x",
        "/x",
        "a/b",
        "a\\b",
        "..",
        ".",
        ".hidden",
        "a\0",
        "a\n",
        "a.",
        "a:b",
        "con*",
        "a?",
        "-x",
        "",
        "A",
        "x" * 101,
    ],
)
def test_names_of_runs_and_rows_are_plain(name: str) -> None:
    with pytest.raises(GradcastError, match=r"name = .* is not valid"):
        parse({"name": name})
    with pytest.raises(GradcastError, match=r"name = .* is not valid"):
        parse({"name": "a", "row": [{"name": name}]})


def test_labels_and_titles_are_lines_without_orders() -> None:
    for text in ("\x1b[2J", "a\nb", "\u202egnp", "\x07"):
        with pytest.raises(GradcastError, match=r"title = .* is not valid"):
            parse({"name": "a", "title": text})
        with pytest.raises(GradcastError, match=r"label = .* is not valid"):
            parse({"name": "a", "row": [{"name": "b", "label": text}]})
    assert parse({"name": "a", "title": "Ünï — κόσμε 日本 👩‍🔬"}).title == "Ünï — κόσμε 日本 👩‍🔬"


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('[stream]\nsource = "folder"\npath = "../secret"', "stream.path"),
        ('[stream]\nsource = "tasks"\npath = ["a", "../secret"]', "stream.path"),
        ('[pool]\nname = "folder"\npath = "a/../../secret"', "pool.path"),
        ('[model]\nweights = "../w.pth"', "model.weights"),
        ('[[row]]\nname = "a"\npool = {name = "folder", path = ".."}', "pool.path"),
    ],
)
def test_a_file_names_no_place_above_its_folder(tmp_path: Path, text: str, key: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(GradcastError, match=rf"{key} = .* climbs out of its folder; .*--set {key}=PATH"):
        load(str(path))
    path.write_text(text.replace("../", "/").replace('".."', '"/"'))
    assert load(str(path)).name == "mine"


def test_a_place_that_the_user_names_may_lie_anywhere() -> None:
    spec = load("digits", ["stream.source=folder", "stream.path=../mine", "pool.name=folder", "pool.path=../.."])
    assert spec.rows[0].setting.stream.path == "../mine"
    assert getattr(spec.rows[1].setting.pool[0], "path", "") == "../.."


@pytest.mark.parametrize("key", ["stream.path", "pool.path", "model.weights"])
def test_a_place_holds_no_zero_byte(key: str) -> None:
    table, word = key.split(".")
    name = {"stream": {"source": "folder"}, "pool": {"name": "folder"}, "model": {}}[table]
    with pytest.raises(GradcastError, match=f"{key} = .* is not valid"):
        parse({"name": "a", table: name | {word: "a\0b"}})


def test_reports_and_comparisons_import_nothing_that_a_run_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = copy_of_run(tmp_path / "runs" / "digits-1")
    mark = tmp_path / "imported"
    (tmp_path / "evil.py").write_text(f"import pathlib\npathlib.Path({str(mark)!r}).mkdir()\nNet = None\n")
    file = run.path / "spec.toml"
    text = re.sub(r"(?ms)^\[model\]\n.*?\n\n", '[model]\nname = "python"\npath = "evil:Net"\n\n', file.read_text())
    file.write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    assert run.spec.rows[0].setting.model.name == "python"
    write_html(read_runs(tmp_path / "runs"), tmp_path / "report.html")
    write_report(run, result.read(run))
    assert len(compare(run.path / "base", run.path).found) == 2
    assert "evil" not in sys.modules
    assert not mark.exists()
    with pytest.raises(GradcastError, match="'evil:Net' is not a class"):
        gradcast.run(run.spec, out=tmp_path / "out")  # only training does
    assert mark.exists()
    sys.modules.pop("evil")
    assert shutil.rmtree(mark) is None


def test_weights_are_loaded_whole_or_refused_when_a_file_holds_code(tmp_path: Path) -> None:
    mark = tmp_path / "made"
    torch.save({"layers.0.weight": Call(os.mkdir, (str(mark),))}, tmp_path / "w.pth")
    settings = ["seeds=[0]", "stream.tasks=1", "stream.samples=10", f"model.weights={tmp_path / 'w.pth'}"]
    with pytest.raises(GradcastError, match="refused and not executed"):
        gradcast.run(load("digits", settings), out=tmp_path / "out", device="cpu")
    assert not mark.exists()
