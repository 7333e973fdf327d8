import torch
from torch import nn
from torch.nn.functional import cosine_similarity

from gradcast.data.load import Shelf, untracked
from gradcast.head_start.probe import Probe
from gradcast.replicas.heads import Heads
from gradcast.replicas.replicas import Replicas
from gradcast.specs import build_stream
from gradcast.specs.text import load
from gradcast.streams.task_data import TaskData
from tests.helpers import CPU
from tests.specs.test_build import PLACE, SHELF


def network(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 5), nn.ReLU(), nn.Linear(5, 3))


def test_nearest_neighbours_in_another_spelling() -> None:
    modules = [network(0).double(), network(1).double()]
    x, y = torch.rand(2, 9, 3, 2, 2, dtype=torch.float64), torch.randint(0, 3, (2, 9))
    found = Probe(x, y).accuracy(Replicas(modules, Heads.even(3), device=CPU, dtype=torch.float64))
    for replica, module in enumerate([network(0).double(), network(1).double()]):
        rows = module[:3](x[replica]).detach()
        right = 0
        for i in range(9):
            others = [j for j in range(9) if j != i]
            nearest = max(others, key=lambda j, i=i, rows=rows: float(cosine_similarity(rows[i], rows[j], dim=0)))
            right += int(y[replica, nearest] == y[replica, i])
        assert float(found[replica]) == right / 9


def test_it_looks_at_labelled_training_images_of_the_first_task() -> None:
    assert isinstance(SHELF, Shelf)
    assert SHELF.track is untracked
    setting = load("digits", ["stream.samples=30"]).rows[0].setting
    data = TaskData(build_stream.stream(setting.stream, SHELF), [0, 1], PLACE)
    probe = Probe.of(data)
    assert probe.x.shape == (2, 30, 1, 8, 8)
    assert torch.equal(probe.y, data.train(0).y)
