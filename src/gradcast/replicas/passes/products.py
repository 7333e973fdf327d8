"""Products of matrices, on a CPU by the library that is fastest there.

torch has two libraries for products in float32 on a CPU. It takes MKL, which uses AVX-512 on Intel's processors alone.
oneDNN uses it on AMD's too, where large products are then twice as fast. The two round differently.

Gradients do not flow through these products: layers have backward passes of their own.
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import linear
from torch.overrides import TorchFunctionMode

LARGE = 1 << 20  # multiplications; for smaller products a call of oneDNN, 10 microseconds more, does not pay


def product(a: Float[Tensor, "n m i"], b: Float[Tensor, "n i o"]) -> Float[Tensor, "n m o"]:
    """The products ``a @ b``, side by side."""
    return _joined([one.unsqueeze(0) for one in products(a, b)]) if _pays(a, b.shape[-1]) else a @ b


def products(a: Float[Tensor, "n m i"], b: Float[Tensor, "n i o"]) -> Sequence[Float[Tensor, "m o"]]:
    """The same, one by one: who copies them to where they belong need not copy them side by side first."""
    if not _pays(a, b.shape[-1]):
        return (a @ b).unbind()
    return [_by_onednn(own, factor.t(), None) for own, factor in zip(a.contiguous(), b, strict=True)]


def affine(
    x: Float[Tensor, "n *any i"], weight: Float[Tensor, "r o i"], bias: Float[Tensor, "r o"] | None
) -> Float[Tensor, "n *any o"]:
    """``x @ weight' + bias``, where each of r equal shares of ``x`` has weights of its own; not a view."""
    images = x.reshape(len(weight), -1, x.shape[-1])
    if _pays(images, weight.shape[1]):
        biases = [None] * len(weight) if bias is None else list(bias)
        shares = zip(x.chunk(len(weight)), weight, biases, strict=True)
        found = _joined([_by_onednn(own, w, b) for own, w, b in shares])
        return found if found._base is None else found.clone()
    y = x.new_empty(*x.shape[:-1], weight.shape[1])
    flat = y.view(len(weight), -1, weight.shape[1])
    if bias is None:
        torch.bmm(images, weight.mT, out=flat)
    else:
        torch.baddbmm(bias.unsqueeze(1), images, weight.mT, out=flat)
    return y


class FasterLinear(TorchFunctionMode):
    """Within this context large linear layers of any module take the faster library, where no gradient is asked for."""

    def __torch_function__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Ours for large linear layers, the ordinary one for everything else."""
        if func is linear and not torch.is_grad_enabled():
            return _linear(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def _linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    large = weight.dim() == 2 and _pays(input.reshape(1, -1, input.shape[-1]), len(weight))
    return _by_onednn(input, weight, bias) if large else linear(input, weight, bias)


def _pays(a: Float[Tensor, "n m i"], width: int) -> bool:
    """Whether oneDNN is faster for each of n products of ``a`` with as many columns as ``width``."""
    large = a.shape[1] * a.shape[2] * width >= LARGE
    return large and a.dtype == torch.float32 and a.device.type == "cpu" and _onednn_is_faster()


@cache
def _onednn_is_faster() -> bool:
    """Whether this is an AMD processor with AVX-512, and torch has oneDNN."""
    if not torch.backends.mkldnn.is_available() or torch.backends.cpu.get_cpu_capability() != "AVX512":
        return False
    facts = Path("/proc/cpuinfo")
    return facts.is_file() and "AuthenticAMD" in facts.read_text(encoding="utf-8")


def _by_onednn(x: Float[Tensor, "*m i"], weight: Float[Tensor, "o i"], bias: Tensor | None) -> Float[Tensor, "*m o"]:
    found: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return found


def _joined(parts: Sequence[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(list(parts))
