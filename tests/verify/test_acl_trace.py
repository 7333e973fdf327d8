"""What hands a file's choices to our code; whole files are replayed in test_acl_replay.py."""

from pathlib import Path

import numpy as np
import pytest
import torch

from gradcast.devices import Place
from gradcast.verify.acl_trace import (
    AclConfig,
    AclTrace,
    Departed,
    RecordedData,
    RecordedDraws,
    RecordedJudgeDraws,
    RecordedNetworks,
)
from tests.helpers import CPU


def opened(path: Path) -> AclTrace:
    arrays = dict(np.load(path))
    return AclTrace(arrays, AclConfig.model_validate_json(str(arrays["config"])), Place(CPU, torch.float64))


@pytest.mark.golden
def test_networks_come_in_the_order_of_occasions(golden: Path) -> None:
    trace = opened(golden / "acl_reset.npz")
    networks = RecordedNetworks(trace)
    for prefix, task in (("init", 0), ("restart/015", 0), ("restart/015", 1)):
        made, weights = networks(), trace.weights(prefix)
        for parameter, name in zip(made.parameters(), trace.names(task), strict=True):
            assert torch.equal(parameter.data, weights[name])
    with pytest.raises(Departed):
        networks()


@pytest.mark.golden
def test_discriminators_and_noise(golden: Path) -> None:
    trace = opened(golden / "acl_reset.npz")
    draws, sizes = RecordedJudgeDraws(trace), [(6, 6), (6, 6), (6, 3)]
    for again, prefix in ((False, "discriminator_init/1"), (True, "restart_discriminator/039")):
        found = draws.layers(1, sizes, again=again)
        assert [tuple(layer.shape) for layer in found] == [(1, 6, 7), (1, 6, 7), (1, 3, 7)]
        assert torch.equal(found[2][0, :, -1], trace.weights(prefix)["dis.4.bias"])
    like = torch.zeros(1, dtype=torch.float64)
    for batch in range(2):
        noise = draws.noise("", (4, 6), like)
        assert np.array_equal(noise.numpy(), trace.arrays[f"noise/{batch:03d}"])


@pytest.mark.golden
def test_batches_and_pool_batches_are_the_recorded_ones(golden: Path) -> None:
    trace = opened(golden / "acl_predicted.npz")
    data = RecordedData(trace)
    for number, batch in enumerate(data.batches(data.epoch(1, 2), 5)):
        rows = trace.arrays[f"rows/{20 + number:03d}"]
        assert np.array_equal(batch.x[0].numpy(), trace.arrays["train_x/1"][rows])
        assert np.array_equal(batch.y[0].numpy(), trace.arrays["train_y/1"][rows])
    with pytest.raises(Departed):
        data.epoch(1, 3)
    draws = RecordedDraws(trace)
    drawn = [draws.next(0, trace.config.start) for _ in range(6)]
    assert [each[0].images if each else 0 for each in drawn] == [0, 5, 5, 5, 2, 0]
