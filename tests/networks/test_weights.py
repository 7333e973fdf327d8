import argparse
import copy
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from gradcast.errors import GradcastError
from gradcast.networks.mlp import MLP
from gradcast.networks.weights import load_weights

State = dict[str, Tensor]
KINDS = ("plain.safetensors", "zipped.pth", "legacy.pt", "zipped.bin")


@pytest.fixture
def network() -> nn.Module:
    return MLP([4, 3, 2], norm="batch")


@pytest.fixture
def weights() -> State:
    return MLP([4, 3, 2], norm="batch").state_dict()


def save(content: Any, path: Path) -> Path:
    if path.suffix == ".safetensors":
        save_file(content, path)
    else:
        torch.save(content, path, _use_new_zipfile_serialization=not path.name.startswith("legacy"))
    return path


def refusal(network: nn.Module, path: Path, **options: Any) -> str:
    """What the user reads; the network must not have changed."""
    before = copy.deepcopy(network.state_dict())
    with pytest.raises(GradcastError) as caught:
        load_weights(network, path, **options)
    torch.testing.assert_close(network.state_dict(), before, rtol=0, atol=0)
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    assert "; " in message  # the remedy comes after it
    return message


@pytest.mark.parametrize("name", KINDS)
def test_all_kinds_of_files_fill_weights_and_buffers(
    name: str, network: nn.Module, weights: State, tmp_path: Path
) -> None:
    weights["layers.1.running_mean"] += 7
    weights["layers.1.num_batches_tracked"] += 5
    parameters = list(network.parameters())
    load_weights(network, save(weights, tmp_path / name))
    torch.testing.assert_close(network.state_dict(), weights, rtol=0, atol=0)
    assert all(a is b for a, b in zip(parameters, network.parameters(), strict=True))  # an optimiser may hold them
    assert all(p.requires_grad and p.grad is None for p in parameters)


@pytest.mark.parametrize("wrapper", ["state_dict", "model"])
def test_a_checkpoint_of_parallel_training_is_unwrapped(
    wrapper: str, network: nn.Module, weights: State, tmp_path: Path
) -> None:
    inner = {f"module.{name}": tensor for name, tensor in weights.items()}
    load_weights(network, save({"epoch": 3, wrapper: inner}, tmp_path / "checkpoint.pth"))
    torch.testing.assert_close(network.state_dict(), weights)
    assert "module.layers.0.weight" in inner


def test_numbers_of_another_precision_are_converted(network: nn.Module, weights: State, tmp_path: Path) -> None:
    halves = {name: tensor.half() if tensor.is_floating_point() else tensor for name, tensor in weights.items()}
    load_weights(network.double(), save(halves, tmp_path / "half.safetensors"))
    found = network.state_dict()["layers.0.weight"]
    assert found.dtype == torch.float64
    assert torch.equal(found, halves["layers.0.weight"].double())


@pytest.mark.parametrize("other", ["of other classes", "without"])
def test_skipped_entries_keep_what_they_hold(other: str, network: nn.Module, weights: State, tmp_path: Path) -> None:
    skip = ("layers.3.weight", "layers.3.bias")
    before = network.state_dict()[skip[0]].clone()
    for name in skip:
        tensor = weights.pop(name)
        if other == "of other classes":
            weights[name] = torch.zeros(9, *tensor.shape[1:])
    load_weights(network, save(weights, tmp_path / "w.pth"), skip=skip)
    found = network.state_dict()
    assert torch.equal(found[skip[0]], before)
    assert torch.equal(found["layers.0.weight"], weights["layers.0.weight"])


def test_names_may_be_translated(network: nn.Module, weights: State, tmp_path: Path) -> None:
    path = save({f"_{name}": tensor for name, tensor in weights.items()}, tmp_path / "published.pth")
    load_weights(network, path, rename=lambda state: {name.removeprefix("_"): t for name, t in state.items()})
    torch.testing.assert_close(network.state_dict(), weights)
    assert "'_layers.0.weight'" in refusal(network, path)


@pytest.mark.parametrize("name", ["none.pth", "none.safetensors"])
def test_a_missing_file(name: str, network: nn.Module, tmp_path: Path) -> None:
    assert "does not exist; check its name" in refusal(network, tmp_path / name)


def test_an_unknown_ending(network: nn.Module, weights: State, tmp_path: Path) -> None:
    assert "unknown kind; give a weight file that ends in" in refusal(network, save(weights, tmp_path / "w.npz"))


@pytest.mark.parametrize("name", KINDS)
def test_files_cut_off_anywhere(name: str, network: nn.Module, weights: State, tmp_path: Path) -> None:
    path = save(weights, tmp_path / name)
    whole = path.read_bytes()
    for share in range(40):
        path.write_bytes(whole[: len(whole) * share // 40])
        assert "fetch it again" in refusal(network, path)
    path.write_bytes(whole[:-1])
    assert "cut off, damaged or of another kind; fetch it again" in refusal(network, path)


@pytest.mark.parametrize("name", ["page.pth", "page.safetensors"])
def test_a_web_page_instead_of_the_file(name: str, network: nn.Module, tmp_path: Path) -> None:
    (tmp_path / name).write_text("<!DOCTYPE html><html><body>Too many requests</body></html>\n" * 9)
    assert "of another kind; fetch it again" in refusal(network, tmp_path / name)


def test_a_folder_instead_of_the_file(network: nn.Module, tmp_path: Path) -> None:
    (tmp_path / "w.pth").mkdir()
    assert "is not an ordinary file; name a weight file" in refusal(network, tmp_path / "w.pth")


class Hostile:
    """Creates a folder when it is unpickled."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (str(self.target),))


def test_the_hostile_pickle_is_one(tmp_path: Path) -> None:
    pickle.loads(pickle.dumps(Hostile(tmp_path / "created")))
    assert (tmp_path / "created").exists()


@pytest.mark.parametrize("protocol", [2, 4, 5])
@pytest.mark.parametrize("form", ["zipped", "legacy", "bare"])
def test_code_in_a_file_is_refused_and_never_runs(
    form: str, protocol: int, network: nn.Module, weights: State, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")  # not even if the surroundings would have it
    created, path = tmp_path / "created", tmp_path / f"{form}.pth"
    content = {**weights, "extra": Hostile(created)}
    if form == "bare":
        path.write_bytes(pickle.dumps(Hostile(created), protocol))
    else:
        torch.save(content, path, pickle_protocol=protocol, _use_new_zipfile_serialization=form == "zipped")
    message = refusal(network, path)
    assert "which was refused and not executed" in message
    assert (f"asks for {os.name}.mkdir" in message) == (protocol == 2)
    assert not created.exists()


def test_a_whole_network_and_settings_beside_weights_are_refused_by_name(
    network: nn.Module, weights: State, tmp_path: Path
) -> None:
    assert "asks for gradcast.networks.mlp.MLP" in refusal(network, save(network, tmp_path / "whole.pth"))
    settings = {"state_dict": weights, "args": argparse.Namespace(lr=0.1)}
    assert "asks for argparse.Namespace" in refusal(network, save(settings, tmp_path / "settings.pth"))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ([torch.zeros(2)], "holds a value of type list, not names with tensors"),
        (torch.zeros(2), "holds a value of type Tensor, not names with tensors"),
        ({}, "holds an empty dict"),
        ({"epoch": 3}, "holds a value of type int under 'epoch', not a tensor under a name"),
        ({3: torch.zeros(2)}, "holds a value of type Tensor under 3, not a tensor under a name"),
        ({"model": {"a\x1b[2J\n": "text"}}, r"holds a value of type str under 'a\x1b[2J\n', not a tensor"),
    ],
)
def test_what_is_not_names_with_tensors(content: Any, words: str, network: nn.Module, tmp_path: Path) -> None:
    assert words in refusal(network, save(content, tmp_path / "w.pth"))


def test_another_architecture_is_named_with_counts(network: nn.Module, tmp_path: Path) -> None:
    message = refusal(network, save(MLP([4, 3, 3, 2]).state_dict(), tmp_path / "w.safetensors"))
    assert "does not hold the weights of MLP: 7 entries are missing (the first: 'layers.1.weight')" in message
    assert "and 4 entries are unexpected (the first: 'layers.2." in message


def test_one_missing_entry(network: nn.Module, weights: State, tmp_path: Path) -> None:
    del weights["layers.3.bias"]
    message = refusal(network, save(weights, tmp_path / "w.pth"))
    assert "of MLP: 1 entry is missing (the first: 'layers.3.bias'); give" in message


def test_another_shape_is_named_with_both(network: nn.Module, weights: State, tmp_path: Path) -> None:
    weights["layers.3.weight"] = torch.zeros(1).expand(10**6, 10**6)  # nobody should try to look at its numbers
    message = refusal(network, save(weights, tmp_path / "w.pth"))
    assert "the entry 'layers.3.weight' has the shape (1000000, 1000000) where the network has (2, 3)" in message


@pytest.mark.parametrize("other", [torch.int8, torch.complex64, "sparse", "meta"])
def test_numbers_of_another_kind(other: Any, network: nn.Module, weights: State, tmp_path: Path) -> None:
    tensor = weights["layers.3.weight"]
    weights["layers.3.weight"] = tensor.to_sparse() if other == "sparse" else tensor.to(other)
    message = refusal(network, save(weights, tmp_path / "w.pth"))
    assert f"the entry 'layers.3.weight' is of another kind ({weights['layers.3.weight'].dtype}" in message


@pytest.mark.parametrize("number", [float("nan"), float("inf"), 1e300])
def test_numbers_that_are_not_finite(number: float, network: nn.Module, weights: State, tmp_path: Path) -> None:
    last = weights["layers.3.bias"].double()
    last[1] = number
    weights["layers.3.bias"] = last
    message = refusal(network, save(weights, tmp_path / "w.safetensors"))
    assert "the entry 'layers.3.bias' holds numbers that are not finite" in message


def test_an_output_layer_may_be_missing_as_a_whole(network: nn.Module, weights: State, tmp_path: Path) -> None:
    last = ("layers.3.weight", "layers.3.bias")
    before = {name: network.state_dict()[name].clone() for name in last}
    features = {name: tensor for name, tensor in weights.items() if name not in last}
    path = save(features, tmp_path / "features.safetensors")
    assert "2 entries are missing" in refusal(network, path)
    load_weights(network, path, optional=last)
    torch.testing.assert_close(network.state_dict(), features | before, rtol=0, atol=0)
    half = save(features | {last[0]: weights[last[0]]}, tmp_path / "half.safetensors")
    assert "1 entry is missing (the first: 'layers.3.bias')" in refusal(network, half, optional=last)
    load_weights(network, save(weights, tmp_path / "whole.safetensors"), optional=last)
    torch.testing.assert_close(network.state_dict(), weights, rtol=0, atol=0)
