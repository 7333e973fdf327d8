import pytest
import torch
from torch import Tensor, nn

from gradcast.errors import GradcastError
from gradcast.networks import ConvLarge, EfficientNet, SlimResNet18, WideResNet
from gradcast.networks.staged import Staged, Trained, seen_through, split, weights_of


class Own(nn.Module):
    """A network of one's own whose output layer lies inside another module."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(3 * 16 * 16, 5), nn.ReLU())
        self.top = nn.Sequential(nn.Dropout(0.5), nn.Linear(5, 4))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.top(self.body(x))
        return out


NETWORKS = {
    "resnet": lambda: SlimResNet18(3, 4),
    "conv-large": lambda: ConvLarge(4, dropout=0.3),
    "wide-resnet": lambda: WideResNet(10, 1, 4),
    "efficientnet": lambda: EfficientNet("lite0", 4, upsample=32),
    "own": Own,
}


def made(name: str) -> nn.Module:
    """A network whose running statistics are not those of its beginning."""
    torch.manual_seed(0)
    network = NETWORKS[name]()
    for layer in network.modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm) and layer.running_mean is not None:
            layer.running_mean.uniform_(-0.1, 0.1)
    return network.eval()


@pytest.mark.parametrize(
    ("name", "train"),
    [("resnet", "head"), ("resnet", 1), ("resnet", 4), ("conv-large", "head"), ("conv-large", 2), ("wide-resnet", 2),
     ("efficientnet", "head"), ("efficientnet", 3), ("own", "head")],
)  # fmt: skip
def test_both_parts_after_each_other_are_the_network(name: str, train: Trained) -> None:
    whole, x = made(name), torch.rand(2, 3, 16, 16)
    before = whole(x)
    frozen, trained = split(whole, train, 4)
    assert torch.equal(trained.eval()(seen_through(frozen, x)), before)
    early, late = set(weights_of(frozen)), set(trained.state_dict())
    assert not early & late
    assert early | late == set(whole.state_dict())
    assert not frozen.training
    assert not any(weight.requires_grad for weight in frozen.parameters())
    assert torch.equal(whole(x), before)


def test_the_last_stages_are_trained() -> None:
    layers = {name.partition(".")[0] for name in split(made("resnet"), 2, 4).trained.state_dict()}
    assert layers == {"layer3", "layer4", "linear"}
    assert set(split(made("own"), "head", 4).trained.state_dict()) == {"top.1.weight", "top.1.bias"}


def test_images_pass_a_few_at_a_time_whatever_their_leading_axes() -> None:
    frozen, x = split(made("resnet"), 1, 4).frozen, torch.rand(2, 3, 3, 16, 16)
    found = seen_through(frozen, x, size=4)
    assert found.shape == (2, 3, 12, 4, 4)
    torch.testing.assert_close(found[1, 2], frozen(x[1, 2:])[0])


@pytest.mark.parametrize(
    ("name", "train", "words"),
    [("own", 1, "counts stages, and Own has none"), ("resnet", 5, "has 5 stages before its output layer; choose 1"),
     ("own", "head", "does not end in a linear layer of 7 outputs")],
)  # fmt: skip
def test_what_cannot_be_cut_is_refused(name: str, train: Trained, words: str) -> None:
    with pytest.raises(GradcastError, match=words):
        split(made(name), train, 7)


def test_a_staged_network_says_what_its_stages_are() -> None:
    with pytest.raises(TypeError, match="stages"):
        Staged()  # type: ignore[abstract]
