import torch

import tests.interpreted  # noqa: F401
from gradcast.replicas.passes import jit
from tests.replicas.passes.reference import single


def test_every_window_gives_its_largest_and_takes_its_slope_back() -> None:
    x, dy = single(2, 6, 4, 3), single(2, 3, 2, 3, seed=1)
    y, dx = torch.full_like(dy, torch.nan), torch.full_like(x, torch.nan)
    jit.largest[(3,)](x, y, y.numel(), 4, 3, BLOCK=16)
    jit.to_the_largest[(3,)](x, dy, dx, y.numel(), 4, 3, BLOCK=16)
    windows = x.unflatten(2, (2, 2)).unflatten(1, (3, 2)).permute(0, 1, 3, 5, 2, 4).flatten(4)
    slopes = dx.unflatten(2, (2, 2)).unflatten(1, (3, 2)).permute(0, 1, 3, 5, 2, 4).flatten(4)
    assert torch.equal(y, windows.amax(-1))
    assert torch.equal(slopes, (windows == windows.amax(-1, keepdim=True)) * dy.unsqueeze(-1))
