import copy
from collections.abc import Callable

import pytest
import torch
from torch import nn

from gradcast.networks.conv_large import ConvLarge
from gradcast.networks.mlp import MLP
from gradcast.networks.resnet import SlimResNet18
from gradcast.replicas.passes import folded, trial
from tests.helpers import needs_gpu
from tests.replicas.passes.reference import PASSES, Scaled, images, modules, one_by_one, together

NETWORKS = {
    "mlp": (lambda: MLP([6, 5, 3]), (2, 3)),
    "mlp with BatchNorm": (lambda: MLP([6, 5, 3], norm="batch"), (6,)),
    "resnet": (lambda: SlimResNet18(4, 5, channels=2), (2, 16, 16)),
    "1x1 convolutions": (
        lambda: nn.Sequential(
            nn.Conv2d(2, 3, 1, stride=(2, 3)), nn.Conv2d(3, 4, 1, bias=False, dilation=2), nn.Flatten()
        ),
        (2, 5, 7),
    ),
    "sequential": (
        lambda: nn.Sequential(
            nn.Conv2d(2, 4, 3, stride=2, padding=1),
            nn.BatchNorm2d(4, momentum=0.3),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(8, 3),
        ),
        (2, 4, 8),
    ),
}


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(("build", "shape"), NETWORKS.values(), ids=NETWORKS)
def test_folded_passes_equal_each_module_alone(
    build: Callable[[], nn.Module], shape: tuple[int, ...], training: bool
) -> None:
    alone, x = [module.train(training) for module in modules(build)], images(*shape)
    expected, found = one_by_one(alone, x), together(folded.outputs, alone, x)
    torch.testing.assert_close(vars(found), vars(expected))
    counts = [buffer for name, buffer in found.buffers.items() if name.endswith("num_batches_tracked")]
    assert all((count == (PASSES if training else 0)).all() for count in counts)


@pytest.mark.parametrize(
    ("build", "shape", "name"),
    [
        (Scaled, (6,), "^mul$"),
        (lambda: nn.LayerNorm(3), (3,), "^layer_norm$"),
        (lambda: nn.Conv2d(2, 2, 3, padding="same"), (2, 4, 4), "padding by name"),
        (lambda: nn.BatchNorm2d(2, affine=False), (2, 4, 4), "without weights"),
    ],
)
def test_what_cannot_be_folded_is_named(build: Callable[[], nn.Module], shape: tuple[int, ...], name: str) -> None:
    with pytest.raises(folded.UnfoldableError, match=name):
        together(folded.outputs, modules(build), images(*shape))


@needs_gpu
@pytest.mark.parametrize("build", [lambda: ConvLarge(4, dropout=0.0), lambda: SlimResNet18(4, 5)])
def test_a_gpus_kernels_pass_networks_as_a_host_does(build: Callable[[], nn.Module]) -> None:
    module, x = build(), torch.rand(48, 3, 16, 16, dtype=torch.float64)
    expected = trial.by(folded.outputs, copy.deepcopy(module).double(), x)
    with torch.backends.cudnn.flags(allow_tf32=False):
        found = trial.by(folded.outputs, module.float().cuda(), x.float().cuda())
    for ours, theirs in zip(found, expected, strict=True):  # rounding opens a few gates and chooses a few pixels
        assert (ours.double().cpu() - theirs).norm() < 0.02 * theirs.norm() + 1e-6


@needs_gpu
def test_in_float64_the_passes_of_replicas_leave_the_library_as_it_was() -> None:
    module, x = SlimResNet18(4, 5).double(), torch.rand(12, 3, 16, 16, dtype=torch.float64)
    expected = trial.by(folded.outputs, copy.deepcopy(module), x)
    module, x = module.cuda(), x.cuda()
    for ours, theirs in zip(trial.by(folded.outputs, module, x), expected, strict=True):
        assert torch.allclose(ours.cpu(), theirs, rtol=1e-9, atol=1e-12)
    alone = module.train()(x[:6])
    with torch.backends.cudnn.flags(enabled=False):
        assert torch.allclose(alone, module(x[:6]), rtol=1e-9)
