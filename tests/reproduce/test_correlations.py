import json
import math
from pathlib import Path

import pytest

from gradcast.reproduce.correlations import as_dict, clouds, in_words
from gradcast.reproduce.reproduce import outcome
from gradcast.results.figures.scatter import correlation
from gradcast.runs.jsontext import to_json
from tests.reproduce.scene import trained, wanted


def test_every_seed_with_a_cosine_is_a_point() -> None:
    request = wanted(trained(), "scatter")
    groups = clouds(request, outcome(request, {}))
    assert groups["pseudo labels"] == []
    assert [cloud.label for cloud in groups["predicted gradients"]] == ["GEM + predicted", "p 0.25", "p 1", "ratio 1"]
    found, count = correlation(groups["predicted gradients"])
    assert count == 12
    told = as_dict(groups)
    assert told["predicted gradients"] == {"r": found, "n": 12}
    assert json.loads(to_json(told))["pseudo labels"] == {"r": None, "n": 0}
    assert in_words(groups) == [
        "Pearson's correlation of cosine and ACC, pseudo labels: r is not defined, n = 0",
        f"Pearson's correlation of cosine and ACC, predicted gradients: r = {found:.2f}, n = 12",
    ]
    assert not math.isnan(found)


@pytest.mark.parametrize("kind", ["table", "curves"])
def test_other_kinds_have_none(kind: str) -> None:
    request = wanted(trained(), kind)  # type: ignore[arg-type]
    assert clouds(request, outcome(request, {})) == {}


def test_without_points_there_are_none(tmp_path: Path) -> None:
    request = wanted(tmp_path, "scatter")
    assert clouds(request, outcome(request, {})) == {}
