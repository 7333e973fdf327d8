"""Street View House Numbers, cropped digits: two MATLAB files."""

from pathlib import Path

import numpy as np

from gradcast.data.images import Images, Source
from gradcast.errors import GradcastError

FILES = ("train_32x32.mat", "test_32x32.mat")
DIGITS = tuple(str(digit) for digit in range(10))


def find_svhn(data: Path) -> list[Path] | None:
    """Both files, or None."""
    paths = [data / "svhn" / name for name in FILES]
    return paths if all(path.is_file() for path in paths) else None


def read_svhn(paths: list[Path]) -> Source:
    """The label 10 of the files means the digit 0."""
    train, test = (_read(path) for path in paths)
    return Source("svhn", train, test, DIGITS)


def _read(path: Path) -> Images:
    from scipy.io import loadmat  # here, not above: only this reader needs it

    try:
        content = loadmat(path, variable_names=["X", "y"])
        pixels, labels = content["X"], content["y"]
    except KeyError as error:
        raise GradcastError(f"{path} has no variable {error}; fetch it again") from None
    except (OSError, ValueError, TypeError, NotImplementedError, LookupError, ArithmeticError, MemoryError) as error:
        raise GradcastError(f"{path} is not a readable MATLAB file ({error}); fetch it again") from None
    if pixels.ndim != 4 or pixels.shape[:3] != (32, 32, 3) or pixels.dtype != np.uint8:
        raise GradcastError(f"{path} holds an X of shape {pixels.shape} instead of 32x32x3xN bytes; fetch it again")
    x = np.ascontiguousarray(pixels.transpose(3, 2, 0, 1))
    return Images(x, labels.ravel().astype(np.int64) % 10)
