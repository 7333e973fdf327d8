import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from gradcast.errors import GradcastError
from gradcast.networks import python_network as own
from gradcast.specs.imported import source_file

SOURCE = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, outputs, width=4):
        super().__init__()
        self.layer = nn.Linear(width, outputs)

    def forward(self, x):
        return self.layer(x.flatten(1)[:, : self.layer.in_features])

def shaped(outputs, shape):
    return nn.Sequential(nn.Flatten(), nn.Linear(shape[0] * shape[1] * shape[2], outputs))

def weightless(outputs):
    return nn.Flatten()

def complex(outputs):
    return nn.Linear(3, outputs, dtype=torch.complex64)

def number(outputs):
    return 3

def failing(outputs):
    raise RuntimeError("no such thing\\nand more")

constant = 3
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "somebodys_networks.py"
    file.write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "somebodys_networks", raising=False)
    return file


def test_a_class_gets_outputs_and_arguments(here: Path) -> None:
    made = own.network("somebodys_networks:Net", {"width": 6}, (3, 8, 8), 5)
    assert made(torch.zeros(2, 3, 8, 8)).shape == (2, 5)
    assert sum(p.numel() for p in made.parameters()) == 6 * 5 + 5


def test_a_function_that_asks_for_the_shape_gets_it(here: Path) -> None:
    made = own.network("somebodys_networks:shaped", {}, (1, 4, 6), 5)
    assert isinstance(made[1], nn.Linear)  # type: ignore[index]
    assert made[1].in_features == 24  # type: ignore[index]


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("somebodys_networks", "is not 'package.module:Name'"),
        ("nobodys_networks:Net", "cannot be imported (ModuleNotFoundError: No module named 'nobodys_networks')"),
        ("somebodys_networks:Nte", "cannot be imported (AttributeError"),
        ("somebodys_networks:constant", "is not a class or function"),
        ("somebodys_networks:number", "gives a int, not a torch.nn.Module"),
        ("somebodys_networks:weightless", "has no weights to train"),
        ("somebodys_networks:complex", "has weights that are no real numbers (weight)"),
        ("somebodys_networks:failing", "(RuntimeError: no such thing); it is called with"),
    ],
)
def test_what_is_no_network_is_explained(here: Path, path: str, told: str) -> None:
    with pytest.raises(GradcastError) as error:
        own.network(path, {}, (3, 8, 8), 5)
    assert told in str(error.value)
    assert "\n" not in str(error.value)


def test_unknown_arguments_are_named(here: Path) -> None:
    with pytest.raises(GradcastError, match=r"cannot be made with outputs, depth \(TypeError"):
        own.network("somebodys_networks:Net", {"depth": 2}, (3, 8, 8), 5)


def test_the_source_is_found_so_that_an_edit_is_noticed(here: Path) -> None:
    assert source_file("somebodys_networks:Net", "model.path") == here
    assert source_file("math:sqrt", "model.path") is None
