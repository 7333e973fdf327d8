import os
import pickle
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from gradcast.data.images import Source
from gradcast.data.own_images import NPZ_KEYS, from_datasets, own_data, pixels, read_npz
from tests.data.hostile import COPIES, refusal, refusals_of_damaged_copies
from tests.data.images import picture
from tests.data.test_pickles import Call

GREY = np.arange(6 * 4 * 5, dtype=np.uint8).reshape(6, 4, 5)
COLOUR = np.random.default_rng(0).integers(0, 256, (6, 4, 5, 3), dtype=np.uint8)
LABELS = np.array([7, -3, 7, 40, -3, 40])


def arrays(**changes: Any) -> dict[str, Any]:
    """The content of a small file with entries changed, or left out where they are None."""
    content = {"x_train": GREY, "y_train": LABELS, "x_test": GREY[:4], "y_test": LABELS[:4]} | changes
    return {key: value for key, value in content.items() if value is not None}


def npz(folder: Path, **changes: Any) -> Path:
    path = folder / "mine.npz"
    np.savez_compressed(path, **arrays(**changes))
    return path


class Pairs(Dataset[Any]):
    """A torch Dataset of whatever it is given."""

    def __init__(self, *pairs: Any) -> None:
        self.pairs = pairs

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, index: int) -> Any:
        return self.pairs[index]


class Endless(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return iter(())


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        (GREY, GREY[:, None]),
        (GREY[..., None], GREY[:, None]),
        (GREY[:, None], GREY[:, None]),
        (COLOUR, COLOUR.transpose(0, 3, 1, 2)),
        (COLOUR.transpose(0, 3, 1, 2), COLOUR.transpose(0, 3, 1, 2)),
    ],
    ids=["N H W", "N H W 1", "N 1 H W", "N H W 3", "N 3 H W"],
)
@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32, np.float64])
def test_npz_files(tmp_path: Path, x: np.ndarray, expected: np.ndarray, dtype: Any) -> None:
    given = x if dtype is np.uint8 else (x / 255).astype(dtype)
    source = read_npz(npz(tmp_path, x_train=given, x_test=given[:4]))
    assert source.name == "mine"
    assert np.array_equal(source.train.x, expected)
    assert np.array_equal(source.test.x, expected[:4])


def test_labels_of_any_value_become_classes_in_their_order(tmp_path: Path) -> None:
    source = read_npz(npz(tmp_path))
    assert source.classes == ("-3", "7", "40")
    assert source.train.y.tolist() == [1, 0, 1, 2, 0, 2]
    assert source.test.y.tolist() == [1, 0, 1, 2]


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int64, np.uint64])
def test_labels_of_any_whole_type(dtype: Any) -> None:
    labels = np.array([200, 3, 200, 9, 3, 9]).astype(dtype)
    expected = np.unique(labels, return_inverse=True)[1]
    assert own_data(GREY, labels, GREY, labels).train.y.tolist() == expected.tolist()


def test_words_are_labels_and_names_of_classes(tmp_path: Path) -> None:
    words = np.array(["dog", "bird", "dog", "äpfel 2", "bird", "äpfel 2"])
    source = read_npz(npz(tmp_path, y_train=words, y_test=words[:4]))
    assert source.classes == ("bird", "dog", "äpfel 2")
    assert source.train.y.tolist() == [1, 0, 1, 2, 0, 2]
    for same in (words.tolist(), words.astype(object)):
        assert own_data(GREY, same, GREY[:4], same[:4]).content == source.content
    other = np.where(words == "dog", "cat", words)  # numbered as before
    assert own_data(GREY, other, GREY[:4], other[:4]).content != source.content
    numbered = own_data(GREY, source.train.y, GREY[:4], source.test.y)
    assert numbered.content != source.content


def test_datasets_with_words_as_labels() -> None:
    source = from_datasets(Pairs((GREY[0], "b"), (GREY[1], "a")), Pairs((GREY[2], "a"), (GREY[3], "b")))
    assert (source.classes, source.train.y.tolist()) == (("a", "b"), [1, 0])
    mixed = Pairs((GREY[0], "b"), (GREY[1], 3))
    assert "no whole number and no word, or some of each" in refusal(from_datasets, mixed, mixed)


def test_whole_numbers_and_truth_values_are_black_and_white() -> None:
    for black in (GREY % 2 == 1, (GREY % 2).astype(np.int64)):
        assert np.array_equal(pixels(black), 255 * (GREY[:, None] % 2))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float64, torch.bfloat16])
def test_tensors(dtype: torch.dtype) -> None:
    whole = torch.from_numpy(COLOUR.transpose(0, 3, 1, 2).copy())
    x = whole if dtype == torch.uint8 else (whole.double() / 255).to(dtype).requires_grad_()
    y = torch.from_numpy(LABELS)
    source = own_data(x, y, x[:4], y[:4], name="named")
    assert (source.name, source.shape, source.classes) == ("named", (3, 4, 5), ("-3", "7", "40"))
    slack = 1 if dtype == torch.bfloat16 else 0
    assert np.abs(source.train.x.astype(int) - whole.numpy().astype(int)).max() <= slack


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x_train": GREY[:5]}, "5 images but 6 labels"),
        ({"y_test": LABELS[[0, 1, 3]]}, "4 images but 3 labels"),
        ({"y_train": LABELS[:, None]}, r"y_train has shape \(6, 1\) and type int64; labels are a row of whole numbers"),
        ({"y_train": LABELS.astype(float)}, "y_train has shape .* and type float64; labels are a row of whole numbers"),
        ({"y_test": np.array(["a", "b", "a", "c"])}, "y_train holds whole numbers and y_test words; both must hold"),
        ({"y_test": np.array([b"a", b"b", b"a", b"c"])}, "y_test has shape .* and type .S1; labels are a row of whole"),
        ({"y_test": np.array(["a", " ", "a", "c"])}, "y_test holds the label ' '; a label in words is printable"),
        ({"y_test": np.array(["a", "\x1b[2J", "a", "c"])}, "y_test holds the label .*; a label in words is printable"),
        ({"y_test": np.array([7, -3, 7, 41])}, "label 41 has test images but no training image; add some or remove it"),
        ({"y_test": np.array([7, -3, 7, 7])}, "label 40 has training images but no test image; add some or remove it"),
        ({"x_train": GREY[:0], "y_train": LABELS[:0]}, "has test images but no training image"),
        ({"x_test": GREY[:0], "y_test": LABELS[:0]}, "x_test is empty"),
        ({"x_test": GREY[:4, :3]}, "training images of shape .1, 4, 5. and test images of shape .1, 3, 5."),
        ({"x_test": COLOUR[:4]}, "training images of shape .1, 4, 5. and test images of shape .3, 4, 5."),
        ({"x_train": GREY.reshape(6, 20)}, r"training images of shape \(20,\) and test images of shape \(1, 4, 5\)"),
        ({"x_train": GREY[0, 0]}, r"x_train has shape \(5,\); images are N x H x W, "),
        ({"x_train": GREY.reshape(6, 2, 2, 5, 1)}, "x_train has shape .*; images are N x H x W, "),
        ({"x_train": GREY.reshape(6, 2, 5, 2)}, "x_train has shape .*; images have one channel or three"),
        ({"x_train": np.array(3)}, r"x_train has shape \(\); images are N x H x W, "),
        ({"x_train": GREY.astype(float)}, "x_train holds float64 numbers outside 0 to 1; give bytes"),
        ({"x_train": GREY / 255 - 0.01}, "x_train holds float64 numbers outside 0 to 1"),
        ({"x_train": GREY.astype(np.int64)}, "x_train holds int64 numbers outside 0 to 1"),
        ({"x_test": np.full((4, 4, 5), np.nan)}, "x_test holds float64 numbers outside 0 to 1"),
        ({"x_test": np.full((4, 4, 5), np.inf, np.float32)}, "x_test holds float32 numbers outside 0 to 1"),
        ({"x_test": np.zeros((4, 4, 5), complex)}, "x_test holds complex128 numbers outside 0 to 1"),
        ({"x_test": np.full((4, 4, 5), "a")}, "x_test holds <U1 numbers outside 0 to 1"),
        ({"x_train": GREY[:, :0], "x_test": GREY[:4, :0]}, "x_train is empty"),
    ],
)
def test_wrong_arrays_are_named(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    assert re.search(message, refusal(own_data, **arrays(**changes)))
    file = npz(tmp_path, **changes)
    assert re.search(f"^{re.escape(str(file))}.*{message}", refusal(read_npz, file))


@pytest.mark.parametrize("key", NPZ_KEYS)
def test_an_array_that_is_missing(tmp_path: Path, key: str) -> None:
    path = npz(tmp_path, **{key: None})
    assert re.search(
        f"{path} has no array '{key}'; it must hold x_train, y_train, x_test, y_test", refusal(read_npz, path)
    )


@pytest.mark.parametrize("key", NPZ_KEYS)
def test_arrays_of_objects_are_never_unpickled(tmp_path: Path, key: str) -> None:
    mark = tmp_path / "made by the pickle"
    objects = np.array([Call(os.system, (f"touch '{mark}'",))], dtype=object)
    path = npz(tmp_path, **{key: objects})
    assert re.search(f"{path} is not a readable .npz file .*allow_pickle=False", refusal(read_npz, path))
    assert not mark.exists()


def test_a_pickle_in_place_of_the_archive_is_never_opened(tmp_path: Path) -> None:
    path, mark = tmp_path / "mine.npz", tmp_path / "made by the pickle"
    path.write_bytes(pickle.dumps(Call(os.system, (f"touch '{mark}'",))))
    assert re.search(f"{path} is not a readable .npz file", refusal(read_npz, path))
    assert not mark.exists()


def member(header: str) -> bytes:
    """An .npy file with this header and a few bytes."""
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes(64)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"abc",
        b"\x93NUMPY\x01",
        member("{'descr': '|u1', 'fortran_order': False, 'shape': (1000000000000000, 28, 28), }\n"),
        member("{'descr': '|u1', 'fortran_order': False, 'shape': (40000000000,), }\n"),
        member("{'descr': '|u1', 'fortran_order': False, 'shape': (-5, 3), }\n"),
        member("{'descr': '|O', 'fortran_order': False, 'shape': (3,), }\n"),
        member("{'descr': 'nonsense', 'fortran_order': False, 'shape': (3,), }\n"),
        member("__import__('os').getcwd()\n"),
        member("{'descr': '|u1', 'fortran_order': False, 'shape': (3,\n"),
        member("(" * 5000),
        member("'''"),
    ],
)
def test_members_that_are_no_arrays(tmp_path: Path, content: bytes) -> None:
    path = npz(tmp_path, x_train=None)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("x_train.npy", content)
    assert re.search(f"{path} is not a readable .npz file|x_train has shape", refusal(read_npz, path))


def test_every_cut_of_a_file_is_noticed(tmp_path: Path) -> None:
    path = npz(tmp_path)
    whole = path.read_bytes()
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        assert re.search(f"{path} is not a readable .npz file", refusal(read_npz, path))


def test_a_single_array_or_nothing_in_place_of_the_archive(tmp_path: Path) -> None:
    np.save(tmp_path / "one.npy", GREY)
    assert re.search("is not a readable .npz file", refusal(read_npz, tmp_path / "one.npy"))
    for path in (tmp_path, tmp_path / "missing.npz"):
        assert re.search(
            f"{path} does not exist; set stream.path to an .npz file with x_train, y_train, x_test, y_test",
            refusal(read_npz, path),
        )


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_damaged_copies(tmp_path: Path, save: Any) -> None:
    path = tmp_path / "mine.npz"
    save(path, **arrays())
    assert 0 < refusals_of_damaged_copies(path, lambda: read_npz(path)) < COPIES


def content(source: Source) -> tuple[object, ...]:
    return source.train.x.tolist(), source.test.x.tolist(), source.classes, source.train.y.tolist()


def expected(x: np.ndarray) -> tuple[object, ...]:
    return x.tolist(), x[:4].tolist(), ("-3", "7", "40"), [1, 0, 1, 2, 0, 2]


def test_tensor_datasets() -> None:
    x, y = torch.from_numpy(GREY / 255), torch.from_numpy(LABELS)
    assert content(from_datasets(TensorDataset(x, y), TensorDataset(x[:4], y[:4]))) == expected(GREY[:, None])


@pytest.mark.parametrize("x", [GREY, COLOUR], ids=["grey", "colour"])
def test_datasets_of_pillow_images(x: np.ndarray) -> None:
    pairs = [(Image.fromarray(image), int(label)) for image, label in zip(x, LABELS, strict=True)]
    channel_first = x[:, None] if x.ndim == 3 else x.transpose(0, 3, 1, 2)
    assert content(from_datasets(Pairs(*pairs), Pairs(*pairs[:4]))) == expected(channel_first)


@pytest.mark.parametrize("mode", ["P", "RGBA", "CMYK", "HSV"])
def test_pillow_images_of_other_modes_are_seen_as_rgb(mode: str) -> None:
    image = picture(0).quantize(200) if mode == "P" else picture(0).convert(mode)
    data = Pairs((image, 0), (image, 1))
    assert np.array_equal(from_datasets(data, data).train.x[1], np.asarray(image.convert("RGB")).transpose(2, 0, 1))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (Endless(), "a dataset of unknown length cannot be used; give one with __len__"),
        (Pairs(), "a dataset is empty; every split needs images"),
        (Pairs((GREY[0], 0), (GREY[0, 1:], 1)), "the images of a dataset differ in shape"),
        (Pairs((picture(0), 0), (picture(1, grey=True), 1)), "the images of a dataset differ in shape"),
        (Pairs(GREY[0], GREY[1]), "something else than pairs"),
        (Pairs({"x": GREY[0], "y": 1}), "something else than pairs"),
        (Pairs((GREY[0], 0, 0)), "something else than pairs"),
        (Pairs((GREY[0], "cat")), "y_train holds words and y_test whole numbers"),
        (Pairs((GREY[0], 0.5)), "a label that is no whole number"),
        (Pairs((GREY[0], None)), "a label that is no whole number"),
        (Pairs((GREY[0], 2**70)), "a label that is no whole number"),
        (Pairs((GREY[0], torch.zeros(2, dtype=torch.int64))), "a label that is no whole number"),
        (Pairs(("cat.png", 0)), "x_train has shape .1,.; images are N x H x W"),
    ],
)
def test_datasets_that_cannot_be_used(data: Any, message: str) -> None:
    assert re.search(message, refusal(from_datasets, data, Pairs((GREY[0], 0))))
