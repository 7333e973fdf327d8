"""The tests mirror the package, and the package stays easy to find one's way in."""

import ast
import re
from collections import Counter
from pathlib import Path

import gradcast

SOURCE = Path(gradcast.__file__).parent
TESTS = Path(__file__).parent
WITHOUT_LOGIC = {Path("__main__.py"), Path("core.py"), Path("errors.py")}
ROOT_MODULES = 10
LONGEST = 300  # lines
MODULES = [path.relative_to(SOURCE) for path in SOURCE.rglob("*.py") if path.name != "__init__.py"]


def test_every_module_has_its_test_file() -> None:
    tested = [module for module in MODULES if module not in WITHOUT_LOGIC]
    missing = [str(module) for module in tested if not (TESTS / module.parent / f"test_{module.name}").is_file()]
    assert len(tested) > 150
    assert missing == []


def test_every_test_file_has_its_module() -> None:
    own = {
        "layout",
        "properties",
        "fuzz",
        "security",
        "errors",
        "examples",
        "documents",
        "combinations",
        "faults",
        "killing",
        "mutated_runs",
        "reference",
        "tutorials",
        "site",
        "notebooks",
        "packaging",
        "pictures",
        "typechecker",
    }  # of several modules
    files = [path.relative_to(TESTS) for path in TESTS.rglob("test_*.py")]
    strangers = [str(file) for file in files if file.with_name(file.name.removeprefix("test_")) not in MODULES]
    assert [file for file in strangers if Path(file).stem.removeprefix("test_") not in own] == []


def test_modules_stay_readable() -> None:
    lengths = {str(module): len((SOURCE / module).read_text().splitlines()) for module in MODULES}
    assert {name: length for name, length in lengths.items() if length > LONGEST} == {}


def test_few_modules_lie_in_the_root_and_no_two_have_one_name() -> None:
    assert len([module for module in MODULES if len(module.parts) == 1]) <= ROOT_MODULES
    names = Counter(module.name for module in MODULES if module.name != "registry.py")
    assert [name for name, count in names.items() if count > 1] == []


def test_the_tests_that_the_documents_name_are_there() -> None:
    named = [
        (file.name, *found)
        for file in (TESTS.parent / "docs").glob("*.md")
        for found in re.findall(r"(test_\w+\.py)::(test_\w+)", file.read_text(encoding="utf-8"))
    ]
    there = {
        (path.name, test)
        for path in TESTS.rglob("test_*.py")  # two files may have one name
        for test in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert len(named) > 20
    assert [own for own in named if own[1:] not in there] == []


def test_every_warning_goes_through_the_one_that_steers_no_terminal() -> None:
    assert [str(own) for own in MODULES if "warnings.warn(" in (SOURCE / own).read_text()] == ["errors.py"]


def test_docstrings_say_what_a_thing_does() -> None:
    """Three words seldom do."""
    short = []
    for module in MODULES:
        for node in ast.walk(ast.parse((SOURCE / module).read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
                words = (ast.get_docstring(node) or "").split()
                short += [f"{module}: {' '.join(words)}"] if 0 < len(words) <= 3 else []
    assert short == []
