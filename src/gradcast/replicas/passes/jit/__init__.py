"""GPU kernels for what no library offers in one call, above all convolutions with one weight gradient a task.

All sums are in a fixed order, so that results repeat bit for bit. A kernel is compiled anew for every value of a
constant, so a size is one only where that makes the kernel faster: deep networks have dozens of them.
"""

from triton import OutOfResources

from gradcast.replicas.passes.jit.batchnorm_kernels import (
    affine,
    blend,
    finish_moments,
    finish_sums,
    fold,
    moments,
    sums,
)
from gradcast.replicas.passes.jit.convolution_kernels import convolution, weight_gradient
from gradcast.replicas.passes.jit.pooling_kernels import largest, to_the_largest

__all__ = [
    "OutOfResources",
    "affine",
    "blend",
    "convolution",
    "finish_moments",
    "finish_sums",
    "fold",
    "largest",
    "moments",
    "sums",
    "to_the_largest",
    "weight_gradient",
]
