"""Shapes and types are checked at run time in all tests: the hook must be there before the package is imported."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jaxtyping
import pytest
import torch

import tests.typechecker

if not torch.cuda.is_available():  # see interpreted.py; read when the compiler is imported, whoever does that first
    os.environ["TRITON_INTERPRET"] = "1"

SOURCE = Path(__file__).parent.parent / "src"
KERNELS = (
    "gradcast.replicas.passes.jit",
    "gradcast.gradients.active_set",
)  # their compiler reads the functions as written
modules = [".".join(path.relative_to(SOURCE).with_suffix("").parts) for path in SOURCE.rglob("[!_]*.py")]
jaxtyping.jaxtyped = tests.typechecker.checked  # type: ignore[assignment]  # the hook looks it up
jaxtyping.install_import_hook(
    [module for module in modules if not module.startswith(KERNELS)], f"{tests.typechecker.__name__}.check"
)


@pytest.fixture(autouse=True, scope="session")
def _surroundings(tmp_path_factory: pytest.TempPathFactory) -> None:
    """One thread, as threads wait for each other wherever other work runs, and a cache of the tests' own."""
    torch.set_num_threads(1)
    os.environ["GRADCAST_CACHE"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def chosen_passes() -> dict[object, Any]:
    """What ``known_passes`` has found out."""
    return {}


@pytest.fixture
def known_passes(chosen_passes: dict[object, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """How passes are computed is found out once a network, not once a row: that takes longer than a short training."""
    from gradcast.replicas.passes import ways  # after the hook
    from gradcast.replicas.passes.choice import choose

    def remembered(module: torch.nn.Module, images: torch.Tensor) -> Any:
        key = type(module).__name__, str(module), images.dtype, tuple(images.shape[1:]), module.training
        if key not in chosen_passes:
            chosen_passes[key] = choose(module, images)
        return chosen_passes[key]

    monkeypatch.setattr(ways, "choose", remembered)


@pytest.fixture
def deterministic() -> Iterator[None]:
    """As the option has it, and back."""
    from gradcast.devices import be_deterministic  # after the hook

    cudnn, threads = torch.backends.cudnn, torch.get_num_threads()
    before = cudnn.benchmark, cudnn.deterministic
    be_deterministic(None)
    yield
    torch.use_deterministic_algorithms(False)
    cudnn.benchmark, cudnn.deterministic = before
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def golden() -> Path:
    """The folder of reference trajectories."""
    return _folder("GRADCAST_GOLDEN", "the reference trajectories (gem_mlp.npz, ...)")


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real datasets."""
    return _folder("GRADCAST_DATA", "real datasets (mnist/, ...)")


def _folder(variable: str, what: str) -> Path:
    place = os.environ.get(variable)
    if not place:
        pytest.skip(f"set {variable} to the folder of {what} to run this")
    return Path(place)
