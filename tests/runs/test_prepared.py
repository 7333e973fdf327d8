from pathlib import Path

import pytest
import torch

from gradcast.data.cache import Cache
from gradcast.data.load import Shelf, untracked
from gradcast.devices import Place
from gradcast.errors import GradcastError
from gradcast.runs.prepared import PreparedRun
from tests.helpers import CPU
from tests.trained_runs import small


def test_rows_share_what_is_the_same_and_only_that() -> None:
    shared = PreparedRun(Place(CPU, torch.float32), Shelf(Path("data"), Cache(Path("cache")), untracked))
    base, predicted, random = (row.setting for row in small("row.random.pool.ratio=0.5").rows)
    assert shared.stream(base) is shared.stream(predicted)
    data = shared.data(base, [0, 1])
    assert data.stream is shared.stream(base)
    assert shared.tests(base, data) is shared.tests(predicted, shared.data(predicted, [2]))
    assert shared.pools(base) == []
    (pool,), (other,) = shared.pools(predicted), shared.pools(random)
    assert pool is shared.pools(predicted)[0]
    assert len(other) == len(pool) // 2
    assert set(shared.content(base)) == {"source"}
    assert shared.content(predicted)["pool"] != shared.content(random)["pool"]
    assert shared.content(predicted)["source"] == shared.content(base)["source"]


def test_a_pool_smaller_than_a_batch_is_refused() -> None:
    shared = PreparedRun(Place(CPU, torch.float32), Shelf(Path("data"), Cache(Path("cache")), untracked))
    enough, few = (small(f"policy.batch={batch}", "pool.count=5").rows[1].setting for batch in (5, 6))
    (pool,) = shared.pools(enough)
    assert len(pool) == 5
    with pytest.raises(GradcastError, match="'patches' has 5 images and a batch of them shall have 6; lower policy"):
        shared.pools(few)
