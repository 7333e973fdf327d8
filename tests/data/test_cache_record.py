from pathlib import Path

import numpy as np
import pytest

from gradcast.data import cache_record
from gradcast.data.cache_record import RECORD, EntryRecord


@pytest.fixture
def entry(tmp_path: Path) -> Path:
    np.save(tmp_path / "x.npy", np.arange(1000, dtype=np.float64))
    (tmp_path / "told.json").write_text("{}")
    EntryRecord.write(tmp_path, {"size": (1, 2)})
    return tmp_path


def test_an_entry_as_it_was_written(entry: Path) -> None:
    record = EntryRecord.read(entry)
    assert record.key == {"size": [1, 2]}
    assert record.files.keys() == {"x.npy", "told.json"}
    record.check(entry, whole=False)
    record.check(entry, whole=True)


@pytest.mark.parametrize("whole", [False, True])
def test_every_change_is_named(entry: Path, whole: bool) -> None:
    path, record = entry / "x.npy", EntryRecord.read(entry)
    good = path.read_bytes()
    changes = {
        "other type": np.arange(1000, dtype=np.int64),
        "other shape": np.arange(1000, dtype=np.float64).reshape(10, 100),
        "not a number": np.full(1000, np.nan),
    }
    for array in changes.values():
        np.save(path, array)
        with pytest.raises(ValueError, match=r"x\.npy has other content than was written"):
            record.check(entry, whole=whole)
    path.write_bytes(good[: len(good) // 2])
    with pytest.raises(ValueError, match=r"x\.npy has 4064 bytes, not 8128"):
        record.check(entry, whole=whole)
    path.unlink()
    with pytest.raises(ValueError, match=r"x\.npy is missing"):
        record.check(entry, whole=whole)
    path.symlink_to("/dev/zero")
    with pytest.raises(ValueError, match=r"x\.npy is no file"):
        record.check(entry, whole=whole)
    path.unlink()
    path.write_bytes(good)
    (entry / "y.npy").touch()
    with pytest.raises(ValueError, match=r"y\.npy does not belong there"):
        record.check(entry, whole=whole)


def test_a_large_file_is_sampled_and_read_whole_on_request(entry: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_record, "BLOCK", 16)
    EntryRecord.write(_without_record(entry), {})
    record, path = EntryRecord.read(entry), entry / "x.npy"
    raw = bytearray(path.read_bytes())
    raw[700] ^= 1  # between two samples
    path.write_bytes(raw)
    record.check(entry, whole=False)
    with pytest.raises(ValueError, match="other content"):
        record.check(entry, whole=True)
    raw[0] ^= 1
    path.write_bytes(raw)
    with pytest.raises(ValueError, match="other content"):
        record.check(entry, whole=False)


def _without_record(entry: Path) -> Path:
    (entry / RECORD).unlink()
    return entry


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"key": {}, "files": {"x.npy": 3}}', "\x00", '{"key": 1, "files": {}}']
)
def test_records_that_are_none(entry: Path, text: str) -> None:
    (entry / RECORD).write_text(text)
    with pytest.raises(ValueError, match=r"."):
        EntryRecord.read(entry)
