import shutil
from pathlib import Path

import pytest

from gradcast.reproduce.correlations import clouds
from gradcast.reproduce.draw import draw
from gradcast.reproduce.experiment_tables import Kind
from gradcast.reproduce.reproduce import Request, outcome
from tests.reproduce.scene import TEXT, trained, wanted


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All rows trained, in a folder of its own to draw in."""
    return Path(shutil.copytree(trained(), tmp_path_factory.mktemp("reproduced") / "out"))


def drawn(request: Request) -> list[Path]:
    request.folder.mkdir(exist_ok=True)
    found = outcome(request, {})
    return draw(request, found, clouds(request, found))


@pytest.mark.parametrize(
    ("kind", "pictures"),
    [
        ("table", []),
        ("sweeps", ["figure"]),
        ("curves", ["figure"]),
        ("courses", ["figure"]),
        ("scatter", ["figure"]),
        ("matrices", ["figure", *(f"difference-{row}" for row in ("predicted", "p-0.25", "p-1", "ratio-1"))]),
    ],
)
def test_every_kind_has_its_pictures(kind: Kind, pictures: list[str], place: Path) -> None:
    made = drawn(wanted(place, kind))
    assert [path.name for path in made] == [f"{name}.png" for name in pictures]
    assert all(path.with_suffix(".svg").read_text().startswith("<?xml") for path in made)


@pytest.mark.parametrize("kind", ["sweeps", "curves", "courses", "scatter", "matrices"])
def test_without_trained_rows_there_is_nothing_to_draw(kind: Kind, tmp_path: Path) -> None:
    assert drawn(wanted(tmp_path, kind)) == []


def test_a_quick_look_says_so_in_its_pictures(place: Path) -> None:
    (path,) = drawn(wanted(place, "sweeps", quick=True))
    assert "QUICK LOOK" in path.with_suffix(".svg").read_text()


def test_sweeps_share_a_plot_and_show_the_measures_that_the_experiment_says(place: Path) -> None:
    (apart,) = drawn(wanted(place, "sweeps"))
    panels = [apart.with_suffix(".svg").read_text().count(name) for name in ("ACC (%)", "BWT")]
    shared = TEXT.replace("[[sweep]]", '[[sweep]]\nplot = "all"').replace("seeds = 3", 'seeds = 3\nmeasures = ["acc"]')
    (together,) = drawn(wanted(place, "sweeps", text=shared))
    assert panels == [3, 3]
    assert [together.with_suffix(".svg").read_text().count(name) for name in ("ACC (%)", "BWT")] == [1, 0]
