"""BatchNorm and the (leaky) ReLU after it as one layer, so that a pass may compute both at once."""

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm, leaky_relu
from torch.overrides import handle_torch_function, has_torch_function


class NormRelu(nn.BatchNorm2d):
    """``relu(norm(x) + skip)``; weights and statistics are those of ``nn.BatchNorm2d``.

    ``leak`` is the share of a negative number that comes through.
    """

    def __init__(self, channels: int, *, leak: float = 0.0, eps: float = 1e-5, momentum: float = 0.1) -> None:
        super().__init__(channels, eps=eps, momentum=momentum)
        self.leak = leak

    def forward(self, x: Tensor, skip: Tensor | None = None) -> Tensor:
        """``skip`` is what a residual block adds before the ReLU."""
        mean, var, momentum = self.running_mean, self.running_var, self.momentum
        assert mean is not None
        assert var is not None
        assert momentum is not None
        if self.training and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
        return batch_norm_relu(x, skip, mean, var, self.weight, self.bias, self.training, momentum, self.eps, self.leak)


@torch.no_grad()
def needs_several(network: nn.Module, shape: Sequence[int]) -> bool:
    """Whether of a single image of this shape a BatchNorm layer sees one value a channel, which has no variance."""
    trial, seen = copy.deepcopy(network).eval(), list[int]()
    layers = [layer for layer in trial.modules() if isinstance(layer, nn.modules.batchnorm._BatchNorm)]
    if not layers:
        return False
    for layer in layers:
        layer.register_forward_pre_hook(lambda _, x: seen.append(x[0][:, 0].numel()))
    with torch.random.fork_rng(devices=[]):  # of the caller's numbers none is drawn
        trial(next(trial.parameters()).new_zeros(1, *shape))
    return 1 in seen


def batch_norm_relu(
    x: Tensor,
    skip: Tensor | None,
    mean: Tensor,
    var: Tensor,
    weight: Tensor,
    bias: Tensor,
    training: bool,
    momentum: float,
    eps: float,
    leak: float,
) -> Tensor:
    """Torch's ``batch_norm``, plus ``skip``, and leaky ReLU; open to overriding like torch's own functions."""
    if has_torch_function((x, weight)):
        taken: Tensor = handle_torch_function(  # in torch's own order: tensors it looks at, then arguments
            batch_norm_relu,
            (x, weight),
            x,
            skip,
            mean,
            var,
            weight=weight,
            bias=bias,
            training=training,
            momentum=momentum,
            eps=eps,
            leak=leak,
        )
        return taken
    y = batch_norm(x, mean, var, weight, bias, training, momentum, eps)
    return leaky_relu(y if skip is None else y + skip, leak)
