import errno
import os
import re
import shutil
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from gradcast.data.cache import Cache, default_cache
from gradcast.data.cache_record import RECORD
from gradcast.errors import GradcastError


def writer(value: int, calls: list[int]) -> object:
    def build(folder: Path) -> None:
        calls.append(value)
        np.save(folder / "x.npy", np.full(5, value))

    return build


def test_built_once_and_mapped_afterwards(tmp_path: Path) -> None:
    cache, calls = Cache(tmp_path / "cache"), []
    first = cache.get("set", {"size": 8}, writer(1, calls))  # type: ignore[arg-type]
    second = cache.get("set", {"size": 8}, writer(2, calls))  # type: ignore[arg-type]
    other = cache.get("set", {"size": 9}, writer(3, calls))  # type: ignore[arg-type]
    assert calls == [1, 3]
    assert isinstance(second["x"], np.memmap)
    assert second["x"].tolist() == first["x"].tolist() == [1] * 5
    assert other["x"].tolist() == [3] * 5


def test_a_failed_build_leaves_nothing(tmp_path: Path) -> None:
    cache = Cache(tmp_path)

    def broken(folder: Path) -> None:
        np.save(folder / "x.npy", np.zeros(3))
        raise GradcastError("no")

    with pytest.raises(GradcastError):
        cache.get("set", {}, broken)
    assert list(tmp_path.iterdir()) == []


def test_two_builders_at_once_agree(tmp_path: Path) -> None:
    cache, calls = Cache(tmp_path), []
    barrier = threading.Barrier(2)

    def slow(folder: Path) -> None:
        calls.append(1)
        np.save(folder / "x.npy", np.arange(4))
        barrier.wait(timeout=10)  # both are building now

    results: list[list[int]] = []
    threads = [
        threading.Thread(target=lambda: results.append(cache.get("s", {}, slow)["x"].tolist())) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [[0, 1, 2, 3]] * 2
    assert len(list(tmp_path.iterdir())) == 1


def test_a_damaged_entry_is_made_anew_and_said_so(tmp_path: Path) -> None:
    cache, calls = Cache(tmp_path), []
    cache.get("set", {}, writer(1, calls))  # type: ignore[arg-type]
    (entry,) = tmp_path.iterdir()
    (entry / "x.npy").write_bytes((entry / "x.npy").read_bytes()[:-8])
    with pytest.warns(UserWarning, match="is damaged .* and is made anew"):
        found = cache.get("set", {}, writer(2, calls))  # type: ignore[arg-type]
    assert found["x"].tolist() == [2] * 5


def test_an_incomplete_entry_is_made_anew(tmp_path: Path) -> None:
    cache, calls = Cache(tmp_path), []
    cache.get("set", {}, writer(1, calls))  # type: ignore[arg-type]
    (entry,) = tmp_path.iterdir()
    (entry / "x.npy").unlink()
    with pytest.warns(UserWarning, match="damaged"):
        assert cache.get("set", {}, writer(2, calls))["x"].tolist() == [2] * 5  # type: ignore[arg-type]


def test_size_and_clearing_of_nothing_but_its_own(tmp_path: Path) -> None:
    cache, calls = Cache(tmp_path), []
    assert cache.entries() == []
    cache.get("one", {}, writer(1, calls))  # type: ignore[arg-type]
    for name in (".building-abandoned", "photos"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.npy").write_bytes(b"x" * 10_000)
    (tmp_path / "link-0123456789abcdef").symlink_to(tmp_path / "photos")
    assert next(entry.size for entry in cache.entries()) == 10_000
    assert cache.clear() > 10_000
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link-0123456789abcdef", "photos"]
    assert (tmp_path / "photos" / "x.npy").is_file()


def test_an_entry_that_lost_its_record_is_cleared_as_well(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.get("one", {}, writer(1, []))  # type: ignore[arg-type]
    (entry,) = tmp_path.iterdir()
    (entry / RECORD).unlink()
    assert cache.clear() > 0
    assert list(tmp_path.iterdir()) == []


def test_a_build_is_left_alone_while_its_process_lives_and_swept_afterwards(tmp_path: Path) -> None:
    cache, seen = Cache(tmp_path), list[list[str]]()

    def build(folder: Path) -> None:
        np.save(folder / "x.npy", np.arange(4))
        cache.sweep()
        cache.clear()
        seen.append([path.name for path in folder.iterdir()])

    cache.get("one", {}, build)
    assert seen == [["x.npy"]]
    killed = tmp_path / ".building-killed"
    killed.mkdir()
    (killed / "x.npy").write_bytes(b"x")
    cache.reserve(10, "decoding")
    assert not killed.exists()


def test_what_does_not_fit_is_refused_with_both_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=3 << 30))
    with pytest.raises(
        GradcastError,
        match=r"decoding coco takes 19\.0 GB in the cache .*new/cache, where 3\.0 GB are free; free some space",
    ):
        Cache(tmp_path / "new" / "cache").reserve(19 << 30, "decoding coco")


@pytest.mark.parametrize(
    ("number", "remedy"),
    [(errno.ENOSPC, "; free some space there or set GRADCAST"), (errno.EACCES, "; set GRADCAST_CACHE to another")],
)
def test_the_remedy_fits_the_fault(tmp_path: Path, number: int, remedy: str) -> None:
    def build(folder: Path) -> None:
        raise OSError(number, os.strerror(number))

    with pytest.raises(GradcastError, match=re.escape(f"cannot be written ({os.strerror(number)}){remedy}")):
        Cache(tmp_path).get("set", {}, build)
    assert list(tmp_path.iterdir()) == []


def test_arrays_of_another_type_shape_or_content_are_made_anew(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.get("set", {}, writer(1, []))  # type: ignore[arg-type]
    (entry,) = tmp_path.iterdir()
    for other in (np.full(5, np.nan), np.ones((5, 1), np.int64), np.full(5, 7)):
        np.save(entry / "x.npy", other)
        with pytest.warns(UserWarning, match=f"the cache entry {entry} is damaged .x.npy has .* and is made anew"):
            assert cache.get("set", {}, writer(1, []))["x"].tolist() == [1] * 5  # type: ignore[arg-type]


def test_every_byte_of_an_entry_is_checked_on_request(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.get("set", {}, writer(1, []))  # type: ignore[arg-type]
    (tmp_path / ".building-killed").mkdir()
    assert sorted(entry.fault() or "" for entry in cache.entries()) == ["", "it was never finished"]
    (entry,) = (entry for entry in cache.entries() if entry.name)
    np.save(entry.path / "x.npy", np.zeros(5, int))
    assert entry.fault() == "x.npy has other content than was written"


def test_entries_have_names_and_some_may_be_cleared_alone(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    for name in ("cub", "head-start"):
        cache.put(name, {"a": 1}, lambda folder: None)
    assert sorted(entry.name for entry in cache.entries()) == ["cub", "head-start"]
    cache.clear([entry for entry in cache.entries() if entry.name == "head-start"])
    assert [entry.name for entry in cache.entries()] == ["cub"]


def test_a_source_that_cannot_be_read_is_not_blamed_on_the_cache(tmp_path: Path) -> None:
    def build(folder: Path) -> None:
        open("/nonexistent/file").close()

    with pytest.raises(GradcastError, match="/nonexistent/file cannot be read"):
        Cache(tmp_path).get("set", {}, build)


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(GradcastError, match="set GRADCAST_CACHE to another folder"):
        Cache(tmp_path / "file" / "cache").get("set", {}, writer(1, []))  # type: ignore[arg-type]


def test_a_folder_above_the_cache_is_the_caches_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(tmp_path))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(GradcastError, match=r"the cache .*a/b cannot be written \(Permission denied\); set GRADCAST"):
        Cache(tmp_path / "a" / "b").get("set", {}, writer(1, []))  # type: ignore[arg-type]


def test_default_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GRADCAST_CACHE", str(tmp_path))
    assert default_cache() == tmp_path
    monkeypatch.delenv("GRADCAST_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache() == tmp_path / "gradcast"
