import os
import threading
from pathlib import Path

import numpy as np
import pytest

from gradcast.data.cache import Cache, default_cache
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
    for name in (".building-abandoned", ".building-fresh", "photos"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.npy").write_bytes(b"x" * 10_000)
    os.utime(tmp_path / ".building-abandoned", (1, 1))
    assert next(entry.size for entry in cache.entries()) == 10_000
    assert cache.clear() > 10_000
    assert sorted(path.name for path in tmp_path.iterdir()) == [".building-fresh", "photos"]


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


def test_default_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GRADCAST_CACHE", str(tmp_path))
    assert default_cache() == tmp_path
    monkeypatch.delenv("GRADCAST_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache() == tmp_path / "gradcast"
