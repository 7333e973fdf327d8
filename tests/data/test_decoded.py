from pathlib import Path

import numpy as np
import pytest

from gradcast.data.decoded import decoded_size, in_sentence, warn_of_unreadable, write_decoded
from gradcast.data.load import untracked
from gradcast.data.scan import image_files
from gradcast.errors import GradcastError
from tests.data.images import fill


def test_unreadable_images_are_not_written_and_told(tmp_path: Path) -> None:
    fill(tmp_path / "in", 5)
    (tmp_path / "in" / "002.png").write_text("no image")
    files = image_files(tmp_path / "in")
    assert decoded_size(files, (3, 8, 8)) == 5 * 192
    assert write_decoded(files, (3, 8, 8), tmp_path, track=untracked).tolist() == [True, True, False, True, True]
    x = np.load(tmp_path / "x.npy")
    assert x.shape == (4, 3, 8, 8)
    assert (tmp_path / "x.npy").stat().st_size == 128 + x.nbytes  # nothing is left of the space for five
    assert np.load(tmp_path / "bad.npy").tolist() == [["002.png", "no image of a known format"]]


def test_nothing_left_is_an_error(tmp_path: Path) -> None:
    for number in range(4):
        (tmp_path / f"{number}.png").write_text("no image")
    with pytest.raises(GradcastError, match="none of the 4 image files"):
        write_decoded(image_files(tmp_path), (3, 8, 8), tmp_path, track=untracked)


def test_the_size_is_told_before_the_first_image(tmp_path: Path) -> None:
    fill(tmp_path / "in", 3)
    told: list[tuple[str, int]] = []

    def track(rounds: object, what: str, total: int) -> object:
        told.append((what, total))
        return rounds

    write_decoded(image_files(tmp_path / "in"), (3, 1000, 1000), tmp_path, track=track)  # type: ignore[arg-type]
    assert told == [("decoding in to 1000 x 1000 pixels, 8.6 MB in the cache", 3)]


def test_many_bad_files_are_counted_and_cannot_steer_a_terminal(tmp_path: Path) -> None:
    fill(tmp_path, 1)
    bad = np.array([[f"{number}\x1b[2J.png", "no"] for number in range(8)])
    with pytest.warns(UserWarning, match="skipped") as warned:
        warn_of_unreadable(image_files(tmp_path), bad)
    assert len(warned) == 6
    assert "skipped 3 more unreadable images" in str(warned[-1].message)
    assert not any("\x1b" in str(own.message) for own in warned)


def test_what_is_left_out_in_one_sentence() -> None:
    left_out = {"hidden": [".a"], ".avif": [f"{number}.avif" for number in range(7)]}
    assert in_sentence(left_out) == "7 .avif (0.avif, 1.avif, 2.avif, 3.avif, 4.avif, ...); 1 hidden (.a)"
