"""Convolutions on the GPU with one weight gradient a pass; see ``jit`` for the kernels themselves."""

from collections.abc import Callable
from functools import cache, partial
from math import prod
from types import ModuleType
from typing import Literal

import torch
from torch import Tensor
from torch.backends import cudnn
from torch.nn.functional import conv2d
from torch.nn.grad import conv2d_weight

from gradcast.errors import warn

FEW = 40  # up to so many channels our convolution beats the library's
MANY = 1 << 32  # products of a pass with more channels from which on the library keeps a GPU busy, pass by pass
PROGRAMS = 1_000  # a convolution or weight gradient is cut until about this many programs share it
AHEAD = 1 << 17  # bytes of rows that a convolution reads ahead, at most
TOLERANCE = 0.02  # of the largest number; products of rounded factors differ by a tenth of that
Kernel = Literal["convolve", "weight_gradients"]
Options = tuple[tuple[int, int], tuple[int, int], tuple[int, int], int]  # stride, padding, dilation, groups


@cache
def jit() -> ModuleType:
    """The kernels, compiled when first used."""
    from gradcast.replicas.passes import jit as module

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


def convolves(x: Tensor, filters: Tensor, options: Options) -> bool:
    """Whether ``convolve`` takes this convolution: it is the faster one where channels are few."""
    few = x.shape[1] <= FEW
    return few and _fits(x, filters, options) and agree("convolve", *_layer(x, filters, options))


def differentiates(x: Tensor, filters: Tensor, options: Options, groups: int) -> bool:
    """Whether ``weight_gradients`` takes the weight gradients of ``groups`` passes: few channels, or short passes."""
    products = 9 * filters.shape[1] * x.numel() // (groups * options[0][0] ** 2)
    return (
        (x.shape[1] <= FEW or products < MANY)
        and _fits(x, filters, options)
        and agree("weight_gradients", *_layer(x, filters, options))
    )


def _fits(x: Tensor, filters: Tensor, options: Options) -> bool:
    """3x3, padded to keep its size, stride 1 or 2, nothing special.

    Products are made on tensor cores, so float32 must be allowed to be rounded to TF32.
    """
    stride, padding, dilation, groups = options
    plain = dilation == (1, 1) and groups == 1 and stride in ((1, 1), (2, 2))
    square = filters.shape[-2:] == (3, 3) and padding == (1, 1)
    even = x.shape[2] % stride[0] == 0 and x.shape[3] % stride[0] == 0
    return ready(x) and rounded(x) and plain and square and even


Layer = tuple[torch.Size, int, int, torch.dtype, torch.device]  # shape of an image, outputs, stride


def _layer(x: Tensor, filters: Tensor, options: Options) -> Layer:
    return x.shape[1:], filters.shape[1], options[0][0], x.dtype, x.device


@cache
def agree(
    kernel: Kernel, shape: torch.Size, outputs: int, stride: int, dtype: torch.dtype, device: torch.device
) -> bool:
    """Whether ours gives what the library gives, tried once for each shape of layer: compilers err."""
    generator = torch.Generator(device).manual_seed(0)
    x = torch.randn(24, *shape, generator=generator, device=device).to(dtype)
    filters = torch.randn(2, outputs, shape[0], 3, 3, generator=generator, device=device).to(dtype)
    dy = torch.randn(24, outputs, shape[1] // stride, shape[2] // stride, generator=generator, device=device).to(dtype)
    x, dy = (images.contiguous(memory_format=torch.channels_last) for images in (x, dy))
    x64, dy64, filters64 = x.double(), dy.double(), filters.double()
    if kernel == "convolve":
        ours = partial(convolve, x, filters, stride=stride)
        each = [conv2d(a, w, None, stride, 1) for a, w in zip(x64.chunk(2), filters64, strict=True)]
        expected = torch.cat(each)
    else:
        ours = partial(weight_gradients, x, dy, filters, groups=4, stride=stride)
        shares = zip(x64.chunk(4), dy64.chunk(4), strict=True)
        expected = torch.stack([conv2d_weight(a, filters64[0].shape, d, stride, 1) for a, d in shares])
    problem = _problem(ours, expected)
    if problem is not None:
        warn(
            f"our kernel {kernel} for a 3 x 3 convolution of {tuple(shape)} {problem}: "
            "the library's is used, which is slower"
        )
    return problem is None


def _problem(ours: Callable[[], Tensor], expected: Tensor) -> str | None:
    """What is wrong with a kernel, if something is."""
    try:
        found = ours()
    except jit().OutOfResources as shortage:
        return f"is too large for this GPU ({shortage})"
    error = float((found - expected).abs().max() / expected.abs().max())
    right = error < TOLERANCE  # not a number where one is
    return None if right else f"differs from the library's by {error:.1e}"


def rounded(x: Tensor) -> bool:
    """Whether products of these numbers may use tensor cores."""
    return x.dtype == torch.bfloat16 or cudnn.allow_tf32


def convolve(x: Tensor, filters: Tensor, *, stride: int) -> Tensor:
    """``x [R * n, C, H, W]`` with ``filters [R, O, C, 3, 3]``."""
    replicas, outputs, channels = filters.shape[:3]
    height, width = x.shape[2] // stride, x.shape[3] // stride
    x = x.contiguous(memory_format=torch.channels_last)
    runs = filters.permute(0, 1, 3, 4, 2).contiguous()
    shape = (len(x), outputs, height, width)
    y = torch.empty(shape, dtype=x.dtype, device=x.device, memory_format=torch.channels_last)
    columns, plain = len(x) // replicas * width, x.dtype == torch.float32
    block = {"BP": 64, "BQ": _block(3 * channels), "BO": 32 if plain or outputs <= 32 else 64}
    read = block["BP"] * block["BQ"] * stride * x.element_size()
    blocks = -(-columns // block["BP"]), -(-outputs // block["BO"]), replicas
    rows = max(1, min(height, height * prod(blocks) // PROGRAMS))
    jit().convolution[(blocks[0] * -(-height // rows), *blocks[1:])](
        x, runs, y, columns, rows, H=x.shape[2], W=x.shape[3], C=channels, HO=height, WO=width, O=outputs,
        STRIDE=stride, **block, PRECISION="tf32", num_warps=4, num_stages=3 if 3 * read <= AHEAD else 2,
    )  # fmt: skip
    return y


def writes(x: Tensor, filters: Tensor) -> bool:
    """Whether the library can write the convolutions of several replicas side by side.

    Not in float64, which torch never asks for with channels last: one such convolution, and torch's own of the same
    shape give wrong numbers from then on.
    """
    if len(filters) == 1 or not x.is_cuda or not cudnn.enabled or torch.version.hip is not None:
        return False
    typed = x.dtype == torch.float32 or (x.dtype == torch.bfloat16 and _modern(x.device))
    return cudnn.is_available() and typed


def written(x: Tensor, filters: Tensor, options: Options) -> Tensor:
    """``x [R * n, C, H, W]`` with ``filters [R, O, C, h, w]``, by the library, one replica after another."""
    stride, padding, dilation, groups = options
    sides = zip(x.shape[2:], filters.shape[3:], stride, padding, dilation, strict=True)
    places = [(side + 2 * edge - apart * (size - 1) - 1) // step + 1 for side, size, step, edge, apart in sides]
    shape = (len(x), filters.shape[1], *places)
    y = torch.empty(shape, dtype=x.dtype, device=x.device, memory_format=torch.channels_last)
    last = filters.flatten(0, 1).contiguous(memory_format=torch.channels_last).unflatten(0, filters.shape[:2])
    repeatable = cudnn.deterministic or torch.are_deterministic_algorithms_enabled()
    how = (padding, stride, dilation, groups, cudnn.benchmark, repeatable, cudnn.allow_tf32)
    for images, own, out in zip(x.chunk(len(last)), last, y.chunk(len(last)), strict=True):
        torch.ops.aten.cudnn_convolution.out(images, own, *how, out=out)
    return y


def weight_gradients(x: Tensor, dy: Tensor, filters: Tensor, *, groups: int, stride: int) -> Tensor:
    """One weight gradient for each of ``groups`` equal shares of the images: ``[groups, O, C, 3, 3]``, in float32."""
    outputs, channels = filters.shape[1], x.shape[1]
    x = x.contiguous(memory_format=torch.channels_last)
    tall = 3 if stride == 1 else 1
    slopes, runs, pixels = tall * outputs, 9 // tall * channels, dy.numel() // (groups * outputs)
    plain = x.dtype == torch.float32  # tensor cores take the slopes transposed only where they are rounded to bfloat16
    block = {"BP": 32 if plain else 64, "BQ": _block(runs), "BS": 32 if plain else _block(slopes)}
    tiles = -(-runs // block["BQ"]) * -(-slopes // block["BS"])
    parts = max(1, min(-(-PROGRAMS // (groups * tiles)), pixels // (4 * block["BP"])))
    chunk = -(-pixels // (parts * block["BP"])) * block["BP"]
    parts = -(-pixels // chunk)
    sums = x.new_empty(parts, groups, outputs, 3, 3, channels, dtype=torch.float32)
    jit().weight_gradient[(groups, parts, tiles)](
        x, dy, sums, pixels, chunk, H=x.shape[2], W=x.shape[3], C=channels, HO=dy.shape[2], WO=dy.shape[3], O=outputs,
        STRIDE=stride, **block, PRECISION="tf32", num_warps=4, num_stages=3,
    )  # fmt: skip
    return sums.sum(0).permute(0, 1, 4, 2, 3)


def _block(size: int) -> int:
    """A power of two: what tensor cores take at least, up to what registers hold."""
    return min(128, max(16, 1 << (size - 1).bit_length()))
