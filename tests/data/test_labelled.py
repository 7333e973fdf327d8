from pathlib import Path

import pytest

from gradcast.data.labelled import LabelledFiles
from gradcast.data.scan import image_files
from gradcast.errors import GradcastError
from tests.data.images import fill


@pytest.mark.parametrize(
    ("train_y", "test_y", "part"), [([0, 0, 0, 0], [0, 1], "training"), ([0, 0, 1, 1], [0, 0], "test")]
)
def test_a_class_without_images_is_named(tmp_path: Path, train_y: list[int], test_y: list[int], part: str) -> None:
    fill(tmp_path / "train", 4)
    fill(tmp_path / "test", 2)
    train, test = (image_files(tmp_path / p) for p in ("train", "test"))
    with pytest.raises(GradcastError, match=f"class 'dog' of own has no readable {part} image"):
        LabelledFiles("own", train, train_y, test, test_y, ("cat", "dog"))
