import torch

from gradcast.acl.draws import JudgeDraws, SeededDraws

LIKE = torch.zeros(2, 1, dtype=torch.float64)


def test_numbers_follow_seed_task_and_name() -> None:
    draws, alone = SeededDraws([3, 4], LIKE), SeededDraws([4], LIKE)
    assert isinstance(draws, JudgeDraws)
    first, again, other = (
        draws.layers(task, [(6, 5), (5, 3)], again=again) for task, again in ((1, False), (1, True), (2, False))
    )
    assert [tuple(layer.shape) for layer in first] == [(2, 5, 7), (2, 3, 6)]
    assert not torch.isclose(first[0], again[0]).any()
    assert not torch.isclose(first[0], other[0]).any()
    assert torch.equal(first[0][1], alone.layers(1, [(6, 5), (5, 3)], again=False)[0][0])
    noise = draws.noise("a", (4, 6), LIKE)
    assert noise.shape == (2, 4, 6)
    assert noise.dtype == torch.float64
    assert torch.equal(noise, draws.noise("a", (4, 6), LIKE))
    assert not torch.isclose(noise, draws.noise("b", (4, 6), LIKE)).any()
