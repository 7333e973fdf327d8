"""Links of the documentation lead somewhere, its commands exist, and pages that tools write are up to date."""

import importlib
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
import yaml
from tools import render_benchmarks, render_claims
from tools.render_commands import commands
from typer.testing import CliRunner

import gradcast
from gradcast.bench import bench_result
from gradcast.bench.bench_result import Bench
from gradcast.bench.epoch_times import EpochTime
from gradcast.cli.app import app
from gradcast.reproduce.measured_tables import measured
from gradcast.reproduce.reproduce import request
from gradcast.specs import text as specfile
from gradcast.specs.text import load
from gradcast.streams.named_augmentations import named

ROOT = Path(__file__).parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith(("http", "mailto:")):
            continue
        name, _, heading = target.partition("#")
        file = page.parent / name if name else page
        assert file.exists(), f"{page.name} links to {target}"
        if heading:
            assert heading in headings(file), f"{page.name} links to {target}"


def headings(page: Path) -> set[str]:
    """Anchors of a page's headings, as code hosts make them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    found = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in found}


def test_every_command_of_the_documentation_exists_with_its_options() -> None:
    known = {name: {option for own in one.params for option in own.opts} for name, one in commands()}
    found = [(page, line) for page in PAGES for line in gradcast_lines(page)]
    assert len(found) > 100
    for page, line in found:
        words = line.split()
        name = next((own for own in (" ".join(words[:2]), words[0]) if own in known), None)
        assert name is not None, f"{page.name}: gradcast {line}"
        asked = {word.partition("=")[0] for word in words if re.fullmatch(r"--[a-z][a-z-]*(=.*)?", word)}
        assert asked <= known[name] | {"--help"}, f"{page.name}: gradcast {line}"


def gradcast_lines(page: Path) -> list[str]:
    """What stands behind gradcast in blocks of a console, without remarks and further commands."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    blocks = re.findall(r"^```console\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    lines = [line for block in blocks for line in block.splitlines() if line.startswith("$ ")]
    return [
        re.split(r" #| [|>&]", own)[0] for line in lines for own in re.findall(r"^\$ (?:\w+=\S+ )*gradcast (.*)", line)
    ]


OWN_FILES = re.compile(r"run (\.\.\.|(mine|my|own_\w+)\.toml)")  # the reader's own
LINES = sorted({" ".join(line.split()) for page in PAGES for line in gradcast_lines(page)})
RUNS = [line for line in LINES if re.match("(run|ssl)( |$)", line) and not OWN_FILES.match(line)]
TABLES = [line for line in LINES if re.match(r"reproduce [A-Z]\d*( |$)", line)]


@pytest.mark.parametrize("line", RUNS)
def test_settings_of_documented_runs_are_valid(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = shlex.split(line)
    done = CliRunner().invoke(app, words if "--show" in words else [*words, "--show"])
    assert done.exit_code == 0, done.output
    assert "[learner]" in done.stdout


@pytest.mark.parametrize("line", TABLES)
def test_rows_and_settings_of_documented_tables_exist(line: str, tmp_path: Path) -> None:
    words = shlex.split(line)
    options = [(words[place], words[place + 1]) for place in range(2, len(words) - 1)]
    rows = [name for option, value in options if option == "--rows" for name in value.split(",")]
    settings = [value for option, value in options if option == "--set"]
    wanted = request(words[1], out=tmp_path, rows=rows, settings=settings)
    assert {*rows} <= {item.name for item in wanted.experiment.items}


def test_blocks_of_python_compile_and_name_what_gradcast_has() -> None:
    found = 0
    for page in PAGES:
        for block in re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE):
            compile(block, str(page), "exec")
            named = re.findall(r"\bgradcast\.([A-Za-z_]\w*)", block)
            assert [name for name in named if not hasattr(gradcast, name)] == [], page.name
            found += len(named)
    assert found > 30


def test_blocks_of_toml_parse_and_name_tables_of_a_specification() -> None:
    found = 0
    for page in PAGES:
        for block in re.findall(r"^```toml\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE):
            keys = tomllib.loads(block).keys()
            found += 1
            if keys & {"stream", "model", "learner", "signal", "row"}:
                assert keys <= {*specfile.HEADER, *specfile.TABLES, "row"}, page.name
    assert found > 5


def python_block(page: str, words: str) -> str:
    """The block of a page that has these words."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found: list[str] = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    (block,) = (own for own in found if words in own)
    return block


def test_the_network_of_the_page_on_networks_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "nets_of_a_page.py").write_text(python_block("docs/networks.md", "class Net("))
    monkeypatch.syspath_prepend(tmp_path)
    settings = ["model.name=python", "model.path=nets_of_a_page:Net", "model.arguments.width=8", "seeds=[0]"]
    spec = load("digits", [*settings, "stream.tasks=2", "stream.samples=40"])
    result = gradcast.run(spec.model_copy(update={"rows": spec.rows[:1]}), out=tmp_path, progress=False)
    assert len(result.rows) == 1


def test_the_augmentation_of_the_page_on_data_darkens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "augmentation_of_a_page.py").write_text(python_block("docs/data.md", "class Darker:"))
    monkeypatch.syspath_prepend(tmp_path)
    (own,) = named(["augmentation_of_a_page:Darker"])
    x, u = torch.rand(3, 1, 4, 4), torch.tensor([[0.0], [0.5], [1.0]])
    torch.testing.assert_close(own.apply(x, u), x * torch.tensor([1.0, 0.75, 0.5]).view(-1, 1, 1, 1))


def test_the_entry_of_the_page_on_methods_builds_its_learner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "examples")
    names: dict[str, Any] = {"gradcast": gradcast, "Literal": Literal, **vars(importlib.import_module("own_learner"))}
    exec(python_block("docs/methods.md", "ENTRY ="), names)  # noqa: S102 -- code of our own page
    entry = names["ENTRY"]
    assert isinstance(entry.build(entry.table(name="anchored", strength=0.3), None), gradcast.Learner)


def test_the_signal_of_the_readme_is_the_gradient_of_the_entropy() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```python\n(class Entropy.*?)^```$", text, re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {"gradcast": gradcast}
    exec(block, names)  # noqa: S102 -- code of our own page
    z = torch.randn(2, 5, 3, dtype=torch.float64, requires_grad=True)
    p = z.softmax(-1)
    (wanted,) = torch.autograd.grad(-(p * p.log()).sum(-1).mean(1).sum(), z)
    found, _ = names["Entropy"]().slopes(None, z.detach(), None, 0)
    torch.testing.assert_close(found, wanted)


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) < 120


def test_the_readme_cites_the_paper_as_the_citation_file_does() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (paper,) = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["references"]
    authors = " and ".join(f"{own['family-names']}, {own['given-names']}" for own in paper["authors"])
    wanted = {"title": paper["title"], "author": authors, "journal": paper["journal"], "year": str(paper["year"])}
    (entry,) = re.findall(r"^@article\{\w+,\n(.*?)^\}$", text, re.DOTALL | re.MULTILINE)
    assert dict(re.findall(r"^  (\w+)\s*= \{(.*?)\},?$", entry, re.MULTILINE)) == wanted | {"url": paper["url"]}


def test_the_page_of_claims_is_that_of_the_measured_tables() -> None:
    assert render_claims.page() == render_claims.PAGE.read_text(encoding="utf-8"), "run python tools/render_claims.py"


def test_a_claim_has_the_verdict_of_its_row_with_seeds_and_comparisons() -> None:
    """By another way than that of the tool."""
    saved = measured("E2")
    assert saved is not None
    (line,) = (line for line in saved.lines if line.item.name == "gem-p-pl")
    assert line.paired is not None
    row = f"| E2 | GEM + P-PL | GEM | -1.77 | 10 | {line.paired.family} | {line.paired.verdict} |"
    section = next(own for own in render_claims.claims() if own.title == "Pseudo labels of a teacher hurt")
    assert row in render_claims.section(section).splitlines()
    unknown = render_claims.section(render_claims.Claim("x", ["E5/acl-predicted"], up=True))
    assert "**Not measured yet.**" in unknown
    assert "$ gradcast reproduce E5 --rows acl-predicted\n" in unknown


def test_the_page_on_speed_has_all_that_was_measured() -> None:
    text = render_benchmarks.PAGE.read_text(encoding="utf-8")
    assert render_benchmarks.page(text) == text, "run python tools/render_benchmarks.py"
    places = render_benchmarks.PLACE.findall(text)
    assert sorted(places) == sorted(render_benchmarks.contents()), "docs/benchmarks.md lacks a place, or has one twice"
    epoch = bench_result.measured()["h200"].epochs[1]
    row = f"| float32 | 5 | {epoch.seconds:.2f} | {epoch.seconds_a_seed:.2f} | {epoch.peak_mb:,} |"
    assert row in text.splitlines()


def test_a_table_of_the_page_on_speed_follows_its_file_and_the_prose_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    own = Bench({"device": "abacus"}, epochs=[EpochTime("float32", 5, 2.5, 0.5, True, None)])
    monkeypatch.setattr(render_benchmarks, "measured", lambda: {"abacus": own})
    text = "before\n\n<!-- measured: abacus epochs -->\n| old |\n<!-- end -->\n\nafter\n"
    found = render_benchmarks.page(text)
    table = "| arithmetic | seeds at once | seconds | seconds a seed |\n| --- | --- | --- | --- |\n"
    assert f"{table}| float32 | 5 | 2.50 | 0.50 |\n\n<!-- end -->\n\nafter\n" in found
    assert found.startswith("before\n\n<!-- measured: abacus epochs -->\n\n**ACL + predicted gradients")
    assert "old" not in found
    with pytest.raises(SystemExit, match="abacus steps was not measured; there are abacus machine, abacus epochs"):
        render_benchmarks.page(text.replace("epochs", "steps"))
