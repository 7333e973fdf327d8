from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from gradcast.errors import GradcastError
from gradcast.head_start.course import Course
from gradcast.head_start.pretrain import pretrain
from gradcast.networks import MLP
from tests.data.images import fill, picture, zipped
from tests.head_start.small_pretraining import NARROW, images, small


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADCAST_CACHE", str(tmp_path / "cache"))


def trained(tmp_path: Path, pool: object, **changes: object) -> int:
    """How many losses came out of it; nothing but the file is left."""
    made = small(tmp_path / "w.safetensors", pool=pool, **changes)  # type: ignore[arg-type]
    assert made.path.is_file()
    assert not list(tmp_path.glob(".*"))
    return len(made.curve)


def refused(tmp_path: Path, pool: object, **changes: object) -> str:
    """What is said of it; nothing is left."""
    with pytest.raises(GradcastError) as caught:
        small(tmp_path / "w.safetensors", pool=pool, **changes)  # type: ignore[arg-type]
    assert not list(tmp_path.glob("*.safetensors"))
    assert not list(tmp_path.glob(".*"))
    return str(caught.value)


def test_a_folder_of_photographs_of_any_size_however_deep(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    for number, (folder, size) in enumerate([(".", (5, 4)), ("a", (30, 8)), ("a/b", (8, 90)), ("c", (300, 200))]):
        fill(photos / folder, 2, size=size, start=10 * number, suffix=(".png", ".jpg")[number % 2])
    assert trained(tmp_path, photos) == 4


def test_a_zip_archive(tmp_path: Path) -> None:
    fill(tmp_path / "photos", 7)
    assert trained(tmp_path, str(zipped(tmp_path / "photos", tmp_path / "photos.zip"))) == 4


def test_broken_files_among_good_ones_are_named_and_left_out(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    fill(photos, 7)
    (photos / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n and no more")
    (photos / "notes.txt").write_text("no image")
    with pytest.warns(UserWarning, match=r"skipped .*broken\.png"):
        assert trained(tmp_path, photos) == 4


@pytest.mark.parametrize("colour", ["rgb", "grey"])
def test_grey_and_colour_images_for_either_network(tmp_path: Path, colour: str) -> None:
    photos = tmp_path / "photos"
    fill(photos, 4)
    for number in range(4):
        picture(number, grey=True).save(photos / f"grey-{number}.png")
    Image.new("RGBA", (9, 9)).save(photos / "clear.png")
    made = small(tmp_path / "w.safetensors", pool=photos, colour=colour)
    assert made.weights["conv1.weight"].shape[1] == {"rgb": 3, "grey": 1}[colour]


@pytest.mark.parametrize("kind", ["bytes", "fractions", "tensor", "grey"])
def test_images_themselves(tmp_path: Path, kind: str) -> None:
    x = images(size=10)
    given = {
        "bytes": x,
        "fractions": x / 255.0,
        "tensor": torch.from_numpy(x).permute(0, 3, 1, 2),
        "grey": images(grey=True),
    }[kind]
    assert trained(tmp_path, given) == 4


def test_folders_without_images_and_nothing_at_all(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert f"{empty} holds no image files; choose a folder of images" in refused(tmp_path, empty)
    (empty / "broken.jpg").write_text("no image")
    assert "can be read" in refused(tmp_path, empty)
    assert "there is nothing at" in refused(tmp_path, tmp_path / "nowhere")
    assert "neither a folder nor a zip archive" in refused(tmp_path, empty / "broken.jpg")


def test_too_few_images(tmp_path: Path) -> None:
    said = refused(tmp_path, images(5))
    assert said == "the pool has 5 images and a batch needs 6; give more images, or lower --batch"
    assert refused(tmp_path, images(1)).endswith("has a single image and a batch needs 6; give more images")
    assert "the pool is empty" in refused(tmp_path, np.empty((0, 8, 8, 3), dtype=np.uint8))


class Headless(nn.Module):
    """No linear layer at its end."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(192, outputs), nn.Conv1d(1, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.first(x.flatten(1)).unsqueeze(1)).squeeze(1)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("slim-resnet", "there is no network 'slim-resnet'; did you mean 'slim-resnet18'?"),
        ("nowhere:Net", "--model = 'nowhere:Net' cannot be imported"),
        (f"{__name__}:Headless", "Headless does not end in a linear layer of 10 outputs"),
        (Headless, "Headless does not end in a linear layer of 10 outputs"),
        (nn.Conv2d(3, 2, 8), "has no linear layer"),
    ],
)
def test_networks_that_do_not_fit(tmp_path: Path, model: object, message: str) -> None:
    assert message in refused(tmp_path, images(), model=model, settings=[])


def test_images_that_are_too_small_for_the_network(tmp_path: Path) -> None:
    assert refused(tmp_path, images(), size=4).endswith("not 4 x 4; set --size or --model=mlp")


def test_a_single_image_in_a_pass_cannot_be_normalised(tmp_path: Path) -> None:
    alone = ["head_start.signal=rotation"]
    said = refused(tmp_path, images(), batch=1, settings=[NARROW, *alone])
    assert said == "--batch 1 is a pass of a single image, which BatchNorm cannot normalise; raise it"
    assert trained(tmp_path, images(), batch=1, model=MLP([192, 4, 2]), settings=alone) == 4


def test_keys_tell_networks_apart_that_begin_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = list[str]()
    original = Course.keys

    def noted(course: Course, seeds: list[int]) -> list[str]:
        keys.extend(original(course, seeds))
        raise GradcastError("far enough")

    monkeypatch.setattr(Course, "keys", noted)
    for dropout in ("0.5", "0.1", "0.5"):
        with pytest.raises(GradcastError, match="far enough"):
            pretrain(
                images(), "conv-large", size=16, batch=2, settings=[f"model.dropout={dropout}"], device="cpu",
                out=tmp_path / "w.safetensors",
            )  # fmt: skip
    assert keys[0] == keys[2] != keys[1]


def test_a_folder_is_known_by_its_images_wherever_it_lies(tmp_path: Path) -> None:
    for name in ("here", "there"):
        fill(tmp_path / name, 7)
        small(tmp_path / f"{name}.safetensors", pool=tmp_path / name)
    first, second = ((tmp_path / f"{name}.safetensors").read_bytes() for name in ("here", "there"))
    assert first == second


def test_there_are_outputs(tmp_path: Path) -> None:
    assert refused(tmp_path, images(), outputs=0) == "outputs = 0 is not valid; give 1 or more"
