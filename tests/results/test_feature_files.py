from pathlib import Path

import numpy as np
import pytest

from gradcast.errors import GradcastError
from gradcast.results.feature_files import FILE, read_feature_map, write_feature_map
from gradcast.results.feature_map import feature_map
from gradcast.runs.directory import RunDirectory

RANDOM = np.random.default_rng(0)


def map_in(folder: Path) -> RunDirectory:
    directory = RunDirectory(folder)
    directory.clear("base", [3])
    features = [RANDOM.normal(size=(20, 4)) for _ in range(2)]
    write_feature_map(directory.seed("base", 3), feature_map(features, features))
    return directory


def test_a_feature_map_is_read_as_it_was_written(tmp_path: Path) -> None:
    directory, features = RunDirectory(tmp_path), [RANDOM.normal(size=(20, 4)) + task for task in range(2)]
    directory.clear("base", [3])
    assert read_feature_map(directory, "base", 3) is None
    written = feature_map(features, [-own for own in features])
    write_feature_map(directory.seed("base", 3), written)
    found = read_feature_map(directory, "base", 3)
    assert found is not None
    assert found.tasks.tolist() == written.tasks.tolist()
    for view, then in ((found.shared, written.shared), (found.private, written.private)):
        np.testing.assert_allclose(view.points, then.points, rtol=1e-3)
        assert (view.explained, view.probe) == (then.explained, then.probe)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"tasks": [0, ', '"tasks": [7, '),
        ('"tasks": [0, ', '"tasks": [0.5, '),
        ('"tasks": [0, ', '"tasks": [1000000000000000000, '),
        ('"tasks": [0, ', '"tasks": [-1, '),
        ('"tasks": [0, ', '"tasks": ['),
        ('"points": [[', '"points": [['[:-1]),
        ('"probe": ', '"probe": null, "was": '),
        ('"explained"', '"explain"'),
        ('"private"', '"privat"'),
        ("{", ""),
    ],
)
def test_a_damaged_feature_map_is_a_sentence(old: str, new: str, tmp_path: Path) -> None:
    directory = map_in(tmp_path)
    file = directory.seed("base", 3) / FILE
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new, 1))
    with pytest.raises(GradcastError, match=r"features.json cannot be read .*delete .*base and run again"):
        read_feature_map(directory, "base", 3)
