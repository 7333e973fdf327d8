import numpy as np
import quadprog
import torch

from gradcast.bench.classical import dual
from gradcast.bench.step_times import NETWORKS, Scene, difference, time_steps
from gradcast.devices import Place
from tests.helpers import CPU


def test_the_programme_agrees_with_a_library() -> None:
    random = np.random.default_rng(0)
    for margin in (0.0, 0.5):
        rows, g = random.normal(size=(7, 40)), random.normal(size=40)
        gram, inner = rows @ rows.T, rows @ g
        expected = quadprog.solve_qp(gram, -inner, np.eye(7), np.full(7, margin))[0]
        np.testing.assert_allclose(dual(gram, inner, margin), expected, atol=1e-9)
        assert (dual(gram, inner, margin) >= margin).all()


def test_both_formulations_end_at_the_same_weights() -> None:
    place = Place(CPU, torch.float64)
    scene = Scene(NETWORKS["mlp"], 4, place, memories=16)
    (ours, model), (classical, module) = scene.ours(), scene.classical()
    start = model.theta.clone()
    timings = time_steps(place, 8, ours, classical)
    assert timings[0].violated == timings[1].violated > 0
    assert difference(model, module) < 1e-12
    assert not torch.equal(model.theta, start)
