"""The wheel and the source archive are complete, and what they say of themselves is true."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import gradcast
from gradcast.runs.environment import PACKAGE, source_digest

ROOT = Path(__file__).parents[1]
CONFIGURATION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
BUILD = """
import sys
from setuptools import build_meta
folder = sys.argv[1]  # which building changes
build_meta.build_sdist(folder)
build_meta.build_wheel(folder)
"""
DESCRIBED = """
import json, torch
from gradcast.runs.environment import describe
print(json.dumps(describe(torch.device("cpu"))))
"""
LEFT = shutil.ignore_patterns(".*", "build", "dist", "runs", "data", "*.egg-info", "__pycache__")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both, built from a copy of the tree."""
    folder = tmp_path_factory.mktemp("packages")
    shutil.copytree(ROOT, folder / "tree", ignore=LEFT)
    shutil.copytree(PACKAGE, folder / "tree" / "src" / "gradcast", dirs_exist_ok=True)  # its folders runs and data
    command = [sys.executable, "-W", "ignore", "-c", BUILD, str(folder)]
    done = subprocess.run(command, cwd=folder / "tree", capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return folder


def test_the_source_archive_has_all_that_the_documentation_names(built: Path) -> None:
    (file,) = built.glob("*.tar.gz")
    with tarfile.open(file) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = (
        "README.md CHANGELOG.md CITATION.cff CONTRIBUTING.md LICENSE Dockerfile Makefile constraints.txt mkdocs.yml"
    )
    assert {*wanted.split(), "setup.py", "pyproject.toml", "src/gradcast_start.py"} <= names
    for folder in ("docs", "examples", "tools"):
        files = {
            str(path.relative_to(ROOT)) for path in (ROOT / folder).rglob("*.*") if "__pycache__" not in path.parts
        }
        assert len(files) > 3
        assert files <= names
    assert "tests/conftest.py" in names


def test_the_wheel_is_the_package_and_knows_itself(built: Path) -> None:
    (file,) = built.glob("*.whl")
    place = built / "installed"
    with zipfile.ZipFile(file) as wheel:
        wheel.extractall(place)
    kept = [path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    missing = [str(path) for path in kept if not (place / "gradcast" / path.relative_to(PACKAGE)).is_file()]
    assert missing == []
    assert source_digest(place / "gradcast") == source_digest(PACKAGE)
    environment = os.environ | {"PYTHONPATH": str(place)}
    done = subprocess.run([sys.executable, "-c", DESCRIBED], cwd=built, env=environment, capture_output=True, text=True)
    facts = json.loads(done.stdout)
    assert facts["versions"]["gradcast"] == gradcast.__version__
    assert (facts["source"], facts["commit"]) == (source_digest(PACKAGE), None)


def test_an_installed_wheel_works_without_a_clone(built: Path, tmp_path: Path) -> None:
    """In an environment of its own, which borrows only the dependencies; the folder knows nothing of the repository."""
    (file,) = built.glob("*.whl")
    venv.create(tmp_path / "venv", with_pip=False)
    python = tmp_path / "venv" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, str(file)], check=True, timeout=120)
    (packages,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib"))
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "GRADCAST"))}

    def gradcast_says(*arguments: str) -> str:
        command = [str(python.parent / "gradcast"), *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert gradcast_says("--version") == f"gradcast {gradcast.__version__}\n"
    small = ["--threads", "1", "--seeds", "1", "--set", "stream.tasks=2", "--set", "stream.samples=20"]
    assert "GEM + predicted gradients" in gradcast_says("run", "digits", *small)
    assert "Report: runs/report.html" in gradcast_says("report", "runs")
    assert "GEM" in gradcast_says("reproduce", "E3", "--show")
    facts = json.loads(next((tmp_path / "runs").glob("digits-*/base/env.json")).read_text())
    assert facts["versions"]["gradcast"] == gradcast.__version__
    assert (facts["source"], facts["commit"]) == (source_digest(PACKAGE), None)


def test_the_description_stands_without_the_repository(built: Path) -> None:
    (file,) = built.glob("*.whl")
    with zipfile.ZipFile(file) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith("METADATA"))
        facts = Parser().parsestr(wheel.read(name).decode())
    assert facts["Version"] == gradcast.__version__
    assert facts["Description-Content-Type"] == "text/markdown"
    text = facts.get_payload()
    assert "published method (docs/results/E3.md)" in text
    assert "\n*Accuracy on iCIFAR-100 (%)" in text, "the picture in words"
    assert re.findall(r"\]\((?!https?:)[^)]*\)", text) == []
    assert facts["Author"] == "The gradcast authors"
    assert facts.get_all("Project-URL") == ["Paper, https://arxiv.org/abs/2201.09196"]


def test_the_version_stands_in_one_place() -> None:
    assert CONFIGURATION["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "gradcast.__version__"}
    cited = re.findall(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert cited == [gradcast.__version__], "CITATION.cff names another version"


def test_every_extra_is_pinned() -> None:
    pinned = {
        _name(line) for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines() if "==" in line
    }
    for extra in ("dev", "docs", "package"):
        needed = {_name(own) for own in CONFIGURATION["project"]["optional-dependencies"][extra]}
        assert needed <= pinned
    assert {_name(own) for own in CONFIGURATION["project"]["dependencies"]} <= pinned
    assert "torchvision" not in pinned


def test_the_containers_copy_files_that_exist() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert {"cpu", "cuda"} <= set(re.findall(r"^FROM \S+ AS (\w+)$", text, flags=re.MULTILINE))
    for line in re.findall(r"^COPY (.*)$", text, flags=re.MULTILINE):
        assert all((ROOT / name).exists() for name in line.split()[:-1])


def _name(requirement: str) -> str:
    """As package indexes compare names."""
    return re.sub(r"[-_.]+", "-", re.split(r"[\[<>=;! ]", requirement, maxsplit=1)[0]).lower()
