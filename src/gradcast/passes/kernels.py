"""Convolutions on the GPU with one weight gradient a pass; see ``jit.py`` for the kernels themselves."""

import warnings
from functools import cache
from types import ModuleType

import torch
from torch import Tensor
from torch.nn.functional import conv2d
from torch.nn.grad import conv2d_weight

FEW = 40  # up to so many channels our convolution beats the library's
PROGRAMS = 1_000  # a weight gradient is cut until about this many programs share it
TOLERANCE = 0.02  # of the largest number; products of rounded factors differ by a tenth of that
Options = tuple[tuple[int, int], tuple[int, int], tuple[int, int], int]  # stride, padding, dilation, groups


@cache
def jit() -> ModuleType:
    """The kernels, compiled when first used."""
    from gradcast.passes import jit as module

    return module


@cache
def installed() -> bool:
    """Whether the kernels' compiler is there; a GPU's installation of torch brings it on Linux."""
    try:
        jit()
    except ImportError:
        return False
    return True


def ready(x: Tensor) -> bool:
    """Whether kernels can take these numbers: on a GPU with TF32, in bfloat16 or float32."""
    return x.is_cuda and x.dtype in (torch.bfloat16, torch.float32) and installed() and _modern(x.device)


@cache
def _modern(device: torch.device) -> bool:
    return torch.cuda.get_device_capability(device) >= (8, 0)


def fit(x: Tensor, filters: Tensor, options: Options) -> bool:
    """Whether ours can do this convolution: 3x3 or 1x1, padded to keep its size, stride 1 or 2, nothing special.

    They multiply on tensor cores, so float32 must be allowed to be rounded to TF32.
    """
    stride, padding, dilation, groups = options
    size = filters.shape[-1]
    plain = dilation == (1, 1) and groups == 1 and stride in ((1, 1), (2, 2))
    square = filters.shape[-2] == size and size in (1, 3) and padding == (size // 2, size // 2)
    even = x.shape[2] % stride[0] == 0 and x.shape[3] % stride[0] == 0
    if not (ready(x) and rounded(x) and plain and square and even):
        return False
    return agree(x.shape[1:], filters.shape[1], size, stride[0], x.dtype, x.device)


@cache
def agree(shape: torch.Size, outputs: int, size: int, stride: int, dtype: torch.dtype, device: torch.device) -> bool:
    """Whether ours give what the library gives, tried once for each shape of layer: compilers err."""
    generator = torch.Generator(device).manual_seed(0)
    x = torch.randn(24, *shape, generator=generator, device=device).to(dtype)
    filters = torch.randn(2, outputs, shape[0], size, size, generator=generator, device=device).to(dtype)
    x = x.contiguous(memory_format=torch.channels_last)
    y = convolve(x, filters, stride=stride)
    dy = torch.randn(y.shape, generator=generator, device=device).to(dtype)
    dy = dy.contiguous(memory_format=torch.channels_last)
    found = [y, weight_gradients(x, dy, filters, groups=4, stride=stride)]
    x64, dy64, filters64, pad = x.double(), dy.double(), filters.double(), size // 2
    outer = torch.cat([conv2d(a, w, None, stride, pad) for a, w in zip(x64.chunk(2), filters64, strict=True)])
    shares = zip(x64.chunk(4), dy64.chunk(4), strict=True)
    rows = [conv2d_weight(a, filters64[0].shape, d, stride, pad) for a, d in shares]
    pairs = zip(found, (outer, torch.stack(rows)), strict=True)
    errors = torch.stack([(ours - theirs).abs().max() / theirs.abs().max() for ours, theirs in pairs])
    worst = float(errors.max())  # not a number where one is
    if not worst < TOLERANCE:
        warnings.warn(
            f"our kernel for a {size} x {size} convolution of {tuple(shape)} differs from the library's "
            f"by {worst:.1e}: the library's is used, which is slower",
            stacklevel=2,
        )
        return False
    return True


def rounded(x: Tensor) -> bool:
    """Whether products of these numbers may use tensor cores."""
    return x.dtype == torch.bfloat16 or torch.backends.cudnn.allow_tf32


def convolve(x: Tensor, filters: Tensor, *, stride: int) -> Tensor:
    """``x [R * n, C, H, W]`` with ``filters [R, O, C, k, k]``."""
    replicas, outputs, channels, size, _ = filters.shape
    height, width = x.shape[2] // stride, x.shape[3] // stride
    x = x.contiguous(memory_format=torch.channels_last)
    runs = filters.permute(0, 1, 3, 4, 2).contiguous()
    y = x.new_empty(len(x), height, width, outputs)
    pixels = len(x) // replicas * height * width
    block = {"BP": 128, "BQ": 32 if outputs <= 32 else 64, "BO": 32 if outputs <= 32 else 64}
    jit().convolution[(-(-pixels // block["BP"]), -(-outputs // block["BO"]), replicas)](
        x, runs, y, pixels, H=x.shape[2], W=x.shape[3], C=channels, HO=height, WO=width, O=outputs,
        STRIDE=stride, KS=size, **block, PRECISION="tf32", num_warps=8 if outputs <= 32 else 4, num_stages=2,
    )  # fmt: skip
    return y.permute(0, 3, 1, 2)


def weight_gradients(x: Tensor, dy: Tensor, filters: Tensor, *, groups: int, stride: int) -> Tensor:
    """One weight gradient for each of ``groups`` equal shares of the images: ``[groups, O, C, k, k]``, in float32."""
    outputs, channels, size = filters.shape[1], x.shape[1], filters.shape[-1]
    x = x.contiguous(memory_format=torch.channels_last)
    run, pixels = size * channels, dy.numel() // (groups * outputs)
    block = {"BP": 32, "BQ": 32 if run <= 32 else 64, "BO": 32}
    tiles = -(-run // block["BQ"]) * -(-outputs // block["BO"])
    parts = max(1, min(-(-PROGRAMS // (groups * tiles)), pixels // (8 * block["BP"])))
    chunk = -(-pixels // (parts * block["BP"])) * block["BP"]
    parts = -(-pixels // chunk)
    sums = x.new_empty(parts, groups, outputs, size, size, channels, dtype=torch.float32)
    jit().weight_gradient[(groups, parts, tiles)](
        x, dy, sums, pixels, chunk, H=x.shape[2], W=x.shape[3], C=channels, HO=dy.shape[2], WO=dy.shape[3], O=outputs,
        STRIDE=stride, KS=size, **block, PRECISION="tf32", num_warps=4, num_stages=2,
    )  # fmt: skip
    return sums.sum(0).permute(0, 1, 4, 2, 3)
