import numpy as np
import pytest

from gradcast.results.feature_map import DRAWN, feature_map, principal, probe

RANDOM = np.random.default_rng(0)


def test_principal_components_are_eigenvectors_of_the_covariance() -> None:
    features = RANDOM.normal(size=(50, 4)) * [1, 5, 2, 0.1] + 3
    points, share = principal(features)
    values, vectors = np.linalg.eigh(np.cov(features.T))
    np.testing.assert_allclose(points.var(0, ddof=1), values[::-1][:2])
    np.testing.assert_allclose(np.abs(points), np.abs((features - features.mean(0)) @ vectors[:, ::-1][:, :2]))
    assert share == pytest.approx(values[-2:].sum() / values.sum())


def test_a_component_points_where_its_largest_weight_is_positive() -> None:
    features = np.outer(np.arange(5.0), [-3.0, 1.0])
    points, share = principal(features)
    assert points[0, 0] > points[-1, 0]  # the first feature falls
    assert share == pytest.approx(1)
    np.testing.assert_allclose(principal(-features)[0], -points, atol=1e-12)


@pytest.mark.parametrize("features", [np.ones((6, 3)), np.zeros((6, 1))])
def test_features_that_never_vary_are_one_point(features: np.ndarray) -> None:
    points, share = principal(features)
    assert points.tolist() == [[0.0, 0.0]] * 6
    assert share == 0


def test_a_probe_tells_tasks_that_lie_apart_and_guesses_where_they_do_not() -> None:
    apart = [RANDOM.normal(size=(200, 8)) + 10 * np.eye(8)[task] for task in range(4)]
    same = [RANDOM.normal(size=(200, 8)) for _ in range(4)]
    assert probe(apart) == 1
    assert probe(same) == pytest.approx(0.25, abs=0.08)
    assert probe([np.zeros((10, 3))] * 4) == 0.25  # always the same answer


def test_a_probe_is_least_squares_on_every_second_image() -> None:
    """Against lstsq with the ridge as further rows, on features of another place and length."""
    tasks = [7 + 100 * (RANDOM.normal(size=(60, 5)) + shift) for shift in (0.0, 0.4, -0.5)]
    x, y = np.concatenate([own[::2] for own in tasks]), np.repeat(np.eye(3), 30, axis=0)
    ridge = np.sqrt(1e-3 * len(x)) * np.eye(5)
    weights = np.linalg.lstsq(np.vstack([(x - x.mean(0)) / x.std(), ridge]), np.vstack([y - 1 / 3, 0 * ridge[:, :3]]))[
        0
    ]
    held = [(own[1::2] - x.mean(0)) / x.std() for own in tasks]
    expected = np.mean([((own @ weights).argmax(1) == task).mean() for task, own in enumerate(held)])
    assert probe(tasks) == pytest.approx(expected)
    assert 0.4 < expected < 1


def test_a_feature_map_draws_equally_many_of_every_task() -> None:
    shared, private = ([RANDOM.normal(size=(count, 6)) for count in (500, 420, 9)] for _ in range(2))
    found = feature_map(shared, private)
    assert np.bincount(found.tasks).tolist() == [DRAWN // 3, DRAWN // 3, 9]
    assert found.chance == pytest.approx(1 / 3)
    every = principal(np.concatenate(private))[0]
    np.testing.assert_array_equal(found.by_task(found.private)[2], every[-9:])
    np.testing.assert_array_equal(found.by_task(found.private)[1][[0, -1]], every[[500, 919]])
    assert found.shared.probe == probe(shared)
