"""Where a run happened: versions, machine, commit. Recorded beside every result."""

import hashlib
import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

import gradcast
from gradcast.cluster.ranks import Ranks

PACKAGE = Path(__file__).resolve().parent.parent
RANKS = "ranks"  # key of env.json
PACKAGES = ("torch", "numpy", "scipy", "scikit-learn", "pillow", "pydantic")


def describe(device: torch.device, ranks: Ranks | None = None) -> dict[str, object]:
    """Facts that may explain a difference between two runs; how many ranks trained, where that were several."""
    facts: dict[str, object] = {
        "versions": versions(),
        "commit": _commit(),
        "source": source_digest(PACKAGE),
        "platform": platform.platform(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else str(device),
        "threads": torch.get_num_threads(),
    }
    return facts if ranks is None else facts | {RANKS: ranks.size}


def versions() -> dict[str, str | None]:
    """Of Python, of this package as it runs, and of what it stands on.

    Our own is that of the code: an installation beside the checkout that runs may be another one.
    """
    own = {"python": platform.python_version(), "gradcast": gradcast.__version__}
    return own | {name: installed(name) for name in PACKAGES}


@cache
def source_digest(package: Path) -> str:
    """Of all modules of a package as they are now: it tells apart what commits and versions do not."""
    total = hashlib.blake2b(digest_size=16)
    for file in sorted(package.rglob("*.py")):
        content = file.read_bytes()
        total.update(f"{file.relative_to(package).as_posix()} {len(content)}\n".encode())
        total.update(content)
    return total.hexdigest()


@cache
def installed(package: str) -> str | None:
    """The version of a package; None where it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _commit() -> str | None:
    """The source tree's commit, when the package runs from its own checkout."""
    top = _git(PACKAGE, "rev-parse", "--show-toplevel")
    if top is None or Path(top).resolve() / "src" / "gradcast" != PACKAGE:
        return None
    return _git(PACKAGE, "describe", "--always", "--dirty", "--abbrev=12")


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True, timeout=10
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
