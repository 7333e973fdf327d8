import os
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradcast.data.cifar import BINARY, PIXELS, PYTHON, find_cifar, read_cifar
from gradcast.data.images import Source
from tests.data.hostile import COPIES, PROTOCOLS, pickled, refusal, refusals_of_damaged_copies
from tests.data.test_pickles import Call

NAMES = {"cifar-10": [f"class_{i}" for i in range(10)], "cifar-100": [f"fine_{i}" for i in range(100)]}
FOLDERS = {
    "cifar-10": ("cifar-10-batches-py", "cifar-10-batches-bin"),
    "cifar-100": ("cifar-100-python", "cifar-100-binary"),
}
ROWS = 4  # images a file


def batch(name: str, index: int) -> tuple[np.ndarray, list[int]]:
    """The pixels and labels of one file."""
    pixels = np.random.default_rng(index).integers(0, 256, (ROWS, PIXELS), dtype=np.uint8)
    return pixels, [(index + 3 * row) % len(NAMES[name]) for row in range(ROWS)]


def python_batch(name: str, index: int) -> dict[bytes, Any]:
    pixels, labels = batch(name, index)
    files = [f"image_{row}.png".encode() for row in range(ROWS)]
    if name == "cifar-10":
        return {b"batch_label": b"batch 1 of 5", b"labels": labels, b"data": pixels, b"filenames": files}
    return {
        b"filenames": files,
        b"batch_label": b"",
        b"fine_labels": labels,
        b"coarse_labels": [0] * ROWS,
        b"data": pixels,
    }


def write_python(data: Path, name: str, protocol: str | int = "python 2") -> Path:
    folder, layout = data / FOLDERS[name][0], PYTHON[name]
    folder.mkdir()
    for index, file in enumerate((*layout.train, *layout.test)):
        (folder / file).write_bytes(pickled(python_batch(name, index), protocol))
    names = [label.encode() for label in NAMES[name]]
    meta = {layout.label_names: names, b"coarse_label_names": [b"a"], b"num_vis": 3072}
    (folder / layout.names).write_bytes(pickled(meta, protocol))
    return folder


def write_binary(data: Path, name: str) -> Path:
    folder, layout = data / FOLDERS[name][1], BINARY[name]
    folder.mkdir()
    for index, file in enumerate((*layout.train, *layout.test)):
        pixels, labels = batch(name, index)
        coarse = b"\x13" if name == "cifar-100" else b""
        rows = [coarse + bytes([label]) + row.tobytes() for row, label in zip(pixels, labels, strict=True)]
        (folder / file).write_bytes(b"".join(rows))
    (folder / layout.names).write_text("\n".join(NAMES[name]) + "\n\n")
    return folder


def read(name: str, data: Path) -> Source:
    found = find_cifar(name, data)
    assert found is not None
    return read_cifar(name, *found)


def content(source: Source) -> dict[str, object]:
    """All there is to compare; the first 1,024 bytes of an image are its red plane."""
    parts = {"train": source.train, "test": source.test}
    found: dict[str, object] = {"name": source.name, "classes": source.classes}
    for name, part in parts.items():
        planes = [[plane.tobytes() for plane in image] for image in part.x]
        found[name] = [(*rgb, label) for rgb, label in zip(planes, part.y.tolist(), strict=True)]
    return found


def written(name: str) -> dict[str, object]:
    """The images and labels of all files in their order: rows of red, then green, then blue."""
    batches = [batch(name, index) for index in range(6 if name == "cifar-10" else 2)]
    found: dict[str, object] = {"name": name, "classes": tuple(NAMES[name])}
    for part, own in (("train", batches[:-1]), ("test", batches[-1:])):
        rows = [(row, label) for pixels, labels in own for row, label in zip(pixels, labels, strict=True)]
        found[part] = [(*(row[at : at + 1024].tobytes() for at in (0, 1024, 2048)), label) for row, label in rows]
    return found


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("name", ["cifar-10", "cifar-100"])
def test_reads_the_python_version(tmp_path: Path, name: str, protocol: str | int) -> None:
    write_python(tmp_path, name, protocol)
    assert content(read(name, tmp_path)) == written(name)


@pytest.mark.parametrize("name", ["cifar-10", "cifar-100"])
def test_reads_the_binary_version(tmp_path: Path, name: str) -> None:
    write_binary(tmp_path, name)
    assert content(read(name, tmp_path)) == written(name)


@pytest.mark.parametrize("name", ["cifar-10", "cifar-100"])
def test_the_binary_version_is_used_when_the_python_version_lacks_a_file(tmp_path: Path, name: str) -> None:
    python, binary = write_python(tmp_path, name), write_binary(tmp_path, name)
    found = find_cifar(name, tmp_path)
    assert found == (python, PYTHON[name])
    (python / PYTHON[name].names).unlink()
    assert find_cifar(name, tmp_path) == (binary, BINARY[name])
    (binary / BINARY[name].test[0]).unlink()
    assert find_cifar(name, tmp_path) is None


def test_a_pickle_that_wants_to_call_something_is_refused(tmp_path: Path) -> None:
    mark = tmp_path / "made by the pickle"
    folder = write_python(tmp_path, "cifar-100")
    for file in ("train", "test", "meta"):
        before = (folder / file).read_bytes()
        content = python_batch("cifar-100", 0) | {b"more": Call(os.system, (f"touch '{mark}'",))}
        (folder / file).write_bytes(pickled(content))
        assert re.search(f"{folder / file} asks to call posix.system", refusal(read, "cifar-100", tmp_path))
        (folder / file).write_bytes(before)
    assert not mark.exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({b"data": None}, "{path} has no entries 'data' and 'fine_labels'; fetch it again"),
        ({b"fine_labels": None}, "{path} has no entries 'data' and 'fine_labels'; fetch it again"),
        ({b"data": [1, 2]}, "{path} holds no rows of 3072 bytes"),
        ({b"data": np.zeros((ROWS, PIXELS), np.int8)}, "{path} holds no rows of 3072 bytes"),
        ({b"data": np.zeros((ROWS, PIXELS), np.float32)}, "{path} holds no rows of 3072 bytes"),
        ({b"data": np.zeros((ROWS, PIXELS - 1), np.uint8)}, "{path} holds no rows of 3072 bytes"),
        ({b"data": np.zeros((ROWS, PIXELS, 1), np.uint8)}, "{path} holds no rows of 3072 bytes"),
        ({b"data": np.zeros(ROWS * PIXELS, np.uint8)}, "{path} holds no rows of 3072 bytes"),
        ({b"data": np.array(3, np.uint8)}, "{path} holds no rows of 3072 bytes"),
        ({b"data": np.array([None])}, "{path} is not a readable pickle .*not plain numbers"),
        ({b"fine_labels": (1, 2, 3, 4)}, "the labels in {path} are not a list of whole numbers"),
        ({b"fine_labels": [1, 2, 3, 4.0]}, "the labels in {path} are not a list of whole numbers"),
        ({b"fine_labels": [1, 2, 3, [4]]}, "the labels in {path} are not a list of whole numbers"),
        ({b"fine_labels": [1, 2, 3, 2**63]}, "the labels in {path} are not a list of whole numbers"),
        ({b"fine_labels": [1, 2, 3, -(2**90)]}, "the labels in {path} are not a list of whole numbers"),
        ({b"fine_labels": [1, 2, 3]}, "4 images but 3 labels"),
        ({b"fine_labels": [1, 2, 3, 100]}, "cifar-100 has training labels from 1 to 100 but 100 classes"),
        ({b"fine_labels": [1, 2, 3, -1]}, "cifar-100 has training labels from -1 to 3 but 100 classes"),
        ({b"data": np.zeros((0, PIXELS), np.uint8), b"fine_labels": []}, "cifar-100 has no training images"),
    ],
)
def test_wrong_content_is_named(tmp_path: Path, changes: dict[bytes, Any], message: str) -> None:
    path = write_python(tmp_path, "cifar-100") / "train"
    content = python_batch("cifar-100", 0) | changes
    path.write_bytes(pickled({key: value for key, value in content.items() if value is not None}))
    assert re.search(message.replace("{path}", str(path)), refusal(read, "cifar-100", tmp_path))


def test_a_pickle_of_something_else(tmp_path: Path) -> None:
    path = write_python(tmp_path, "cifar-100") / "train"
    path.write_bytes(pickled([1, 2, 3]))
    assert re.search(f"{path} has no entries 'data' and 'fine_labels'", refusal(read, "cifar-100", tmp_path))


@pytest.mark.parametrize("meta", [{b"label_names": [b"a"]}, {b"fine_label_names": b"abc"}, [b"apple"], 7, None])
def test_names_of_classes_must_be_there(tmp_path: Path, meta: object) -> None:
    folder = write_python(tmp_path, "cifar-100")
    (folder / "meta").write_bytes(pickled(meta))
    assert re.search(f"{folder / 'meta'} has no entry 'fine_label_names'", refusal(read, "cifar-100", tmp_path))


def test_too_few_names_of_classes(tmp_path: Path) -> None:
    folder = write_binary(tmp_path, "cifar-10")
    (folder / "batches.meta.txt").write_text("airplane\nautomobile\n")
    assert re.search("labels from 0 to 9 but 2 classes", refusal(read, "cifar-10", tmp_path))


@pytest.mark.parametrize("name", ["cifar-10", "cifar-100"])
@pytest.mark.parametrize("raw", [b"", bytes(3072), bytes(3075), bytes(100)])
def test_a_binary_file_of_a_wrong_length(tmp_path: Path, name: str, raw: bytes) -> None:
    path = write_binary(tmp_path, name) / BINARY[name].test[0]
    path.write_bytes(raw)
    assert re.search(
        f"{path} has {len(raw)} bytes, not a whole number of {3073 if name == 'cifar-10' else 3074}-byte rows",
        refusal(read, name, tmp_path),
    )


@pytest.mark.parametrize("file", ["train", "meta"])
def test_damaged_copies_of_the_python_version(tmp_path: Path, file: str) -> None:
    folder = write_python(tmp_path, "cifar-100")
    assert 0 < refusals_of_damaged_copies(folder / file, lambda: read("cifar-100", tmp_path)) < COPIES


def test_damaged_copies_of_the_binary_version(tmp_path: Path) -> None:
    folder = write_binary(tmp_path, "cifar-100")
    assert 0 < refusals_of_damaged_copies(folder / "train.bin", lambda: read("cifar-100", tmp_path)) < COPIES


@pytest.mark.data
def test_the_real_files(data: Path) -> None:
    source = read("cifar-100", data)
    assert (len(source.train), len(source.test), len(source.classes)) == (50_000, 10_000, 100)
    assert source.shape == (3, 32, 32)
    assert source.classes[0] == "apple"
    assert set(np.bincount(source.train.y)) == {500}
    assert set(np.bincount(source.test.y)) == {100}


@pytest.mark.parametrize("name", ["cifar-10", "cifar-100"])
def test_keys_may_be_text(tmp_path: Path, name: str) -> None:
    folder, layout = write_python(tmp_path, name), PYTHON[name]
    before = read_cifar(name, folder, layout)
    for file in (*layout.train, *layout.test, layout.names):
        content = pickle.loads((folder / file).read_bytes(), encoding="bytes")
        (folder / file).write_bytes(pickle.dumps({key.decode(): value for key, value in content.items()}))
    after = read_cifar(name, folder, layout)
    assert np.array_equal(before.train.x, after.train.x)
    assert (before.classes, before.train.y.tolist()) == (after.classes, after.train.y.tolist())
