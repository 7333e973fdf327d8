"""Runs GPU kernels on the CPU, by their compiler's interpreter (see conftest.py): slow, exact, and no GPU needed."""

import pytest
import torch

if torch.cuda.is_available():  # the interpreter would run the kernels of all other tests too, on the GPU's numbers
    pytest.skip(
        "interpreted kernels need a process without a GPU: CUDA_VISIBLE_DEVICES= pytest", allow_module_level=True
    )

interpreter = pytest.importorskip(
    "triton.runtime.interpreter", reason="the kernels' compiler is not installed: pip install triton (Linux only)"
)
_original = interpreter._patch_lang_tensor


def _patch(tensor: type, scope: object) -> None:
    """Newer numpy does not turn arrays of one number into numbers; the interpreter's loops rely on it."""
    _original(tensor, scope)
    scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))  # type: ignore[attr-defined]


interpreter._patch_lang_tensor = _patch
