"""The tests mirror the package."""

from pathlib import Path

import gradcast

SOURCE = Path(gradcast.__file__).parent
TESTS = Path(__file__).parent
WITHOUT_LOGIC = {"__init__.py", "__main__.py", "core.py", "errors.py"}


def test_every_module_has_its_test_file() -> None:
    modules = [path.relative_to(SOURCE) for path in SOURCE.rglob("*.py") if path.name not in WITHOUT_LOGIC]
    missing = [str(module) for module in modules if not (TESTS / module.parent / f"test_{module.name}").is_file()]
    assert len(modules) > 20
    assert missing == []


def test_modules_stay_readable() -> None:
    lengths = {path.name: len(path.read_text().splitlines()) for path in SOURCE.rglob("*.py")}
    assert {name: length for name, length in lengths.items() if length > 300} == {}
