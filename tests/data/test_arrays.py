import os
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from gradcast.data.arrays import UNREADABLE, read_npz
from tests.data.test_pickles import Call

HEADER = "{{'descr': '|u1', 'fortran_order': False, 'shape': {}, }}\n"


def written(path: Path, header: str, body: bytes, *, packed: bool) -> Path:
    """An .npz of one array."""
    raw = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + body
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED) as archive:
        archive.writestr("x.npy", raw)
    return path


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_of_all_shapes_and_types(tmp_path: Path, save: object) -> None:
    arrays = {
        "bytes": np.arange(6, dtype=np.uint8).reshape(2, 3),
        "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "empty": np.zeros((0, 4)),
        "number": np.array(3),
        "text": np.array(["a", "ü"]),
        "zeros": np.zeros(10**6),
    }
    save(tmp_path / "a.npz", **arrays)  # type: ignore[operator]
    found = read_npz(tmp_path / "a.npz")
    assert found.keys() == arrays.keys()
    assert all(
        np.array_equal(found[name], array) and found[name].dtype == array.dtype for name, array in arrays.items()
    )


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("shape", [(2**40,), (2**31, 2**31), (5,), (3,), (2**32, 0, 7)])
def test_a_header_that_promises_something_else_is_refused_before_it_costs_memory(
    tmp_path: Path, shape: tuple[int, ...], packed: bool
) -> None:
    path = written(tmp_path / "a.npz", HEADER.format(shape), bytes(4), packed=packed)
    tracemalloc.start()
    try:
        with pytest.raises(UNREADABLE, match=r"'x.npy' promises .* and does not hold them"):
            read_npz(path)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_an_entry_whose_length_is_a_lie_too_is_refused_before_it_costs_memory(tmp_path: Path) -> None:
    path = written(tmp_path / "a.npz", HEADER.format((2**31,)), bytes(4), packed=True)
    raw = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        length = archive.infolist()[0].file_size
    for start in (raw.index(b"PK\x03\x04") + 22, raw.index(b"PK\x01\x02") + 24):
        assert raw[start : start + 4] == length.to_bytes(4, "little")
        raw[start : start + 4] = (length - 4 + 2**31).to_bytes(4, "little")
    path.write_bytes(raw)
    tracemalloc.start()
    try:
        with pytest.raises(UNREADABLE, match="does not hold them"):
            read_npz(path)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_objects_and_other_members_are_refused_and_never_unpickled(tmp_path: Path) -> None:
    mark = tmp_path / "made by the pickle"
    np.savez(tmp_path / "a.npz", x=np.array([Call(os.system, (f"touch '{mark}'",))], dtype=object))
    with pytest.raises(ValueError, match="allow_pickle=False"):
        read_npz(tmp_path / "a.npz")
    with zipfile.ZipFile(tmp_path / "b.npz", "w") as archive:
        archive.writestr("x.pkl", b"")
    with pytest.raises(ValueError, match=r"'x.pkl' is no array"):
        read_npz(tmp_path / "b.npz")
    assert not mark.exists()


def test_arrays_that_unpack_to_more_than_a_file_may_hold_are_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.savez_compressed(tmp_path / "a.npz", x=np.zeros(600_000, np.uint8), y=np.zeros(600_000, np.uint8))
    assert (tmp_path / "a.npz").stat().st_size < 10_000
    monkeypatch.setattr("gradcast.data.arrays.LARGEST", 1_000_000)
    tracemalloc.start()
    with pytest.raises(
        ValueError, match=r"its arrays take 1\.1 MB, and one file may hold 1\.0 MB; use a folder of images"
    ):
        read_npz(tmp_path / "a.npz")
    assert tracemalloc.get_traced_memory()[1] < 500_000
    tracemalloc.stop()
