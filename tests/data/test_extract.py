import gzip
import io
import os
import re
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest

from gradcast.data.extract import extract
from gradcast.errors import GradcastError

Members = dict[str, bytes]
KINDS = ["a.zip", "a.tar", "a.tar.gz", "a.TGZ"]
TREE = {"readme": b"hello", "images/1.png": bytes(5000), "images/deep/2.png": b"two"}


def pack(path: Path, members: Members) -> Path:
    """An archive of the kind its name tells."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in members.items():
                archive.writestr(name, content)
    else:
        with tarfile.open(path, "w" if path.suffix == ".tar" else "w:gz") as archive:
            for name, content in members.items():
                info = tarfile.TarInfo(name)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    return path


def pack_special(path: Path, *, kind: bytes, mode: int = 0o644) -> Path:
    """A tar of one ordinary member and one of this type."""
    with tarfile.open(path, "w") as archive:
        for name, type_ in (("first", tarfile.REGTYPE), ("special", kind)):
            info = tarfile.TarInfo(name)
            info.type, info.linkname, info.mode = type_, "/etc/passwd" if name == "special" else "", mode
            archive.addfile(info)
    return path


def contents(folder: Path) -> Members:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refusal(archive: Path, *, limit: int = 2**30) -> str:
    """What is said of an archive, by its name; nothing but the archive and what was there is there afterwards."""
    folder = archive.parent
    before = sorted(folder.rglob("*"))
    with pytest.raises(GradcastError) as caught:
        extract(archive, folder / "not yet" / "there", limit=limit)
    assert str(archive) in str(caught.value)
    assert sorted(folder.rglob("*")) == before
    return str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
def test_unpacks(tmp_path: Path, kind: str) -> None:
    extract(pack(tmp_path / kind, TREE), tmp_path / "far" / "out")
    assert contents(tmp_path / "far" / "out") == TREE
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([kind, "far"])
    assert [path.name for path in (tmp_path / "far").iterdir()] == ["out"]


@pytest.mark.parametrize("kind", KINDS)
def test_replaces_entries_as_a_whole_and_keeps_others(tmp_path: Path, kind: str) -> None:
    target = tmp_path / "out"
    extract(pack(tmp_path / kind, {"images/old": b"old", "readme": b"old"}), target)
    (target / "mine").write_bytes(b"mine")
    extract(pack(tmp_path / kind, TREE), target)
    assert contents(target) == TREE | {"mine": b"mine"}


def test_replaces_a_link_instead_of_following_it(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "kept").write_bytes(b"kept")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "images").symlink_to(tmp_path / "elsewhere")
    extract(pack(tmp_path / "a.zip", TREE), tmp_path / "out")
    assert contents(tmp_path / "out") == TREE
    assert contents(tmp_path / "elsewhere") == {"kept": b"kept"}


@pytest.mark.parametrize("kind", ["a.zip", "a.tar"])
@pytest.mark.parametrize(
    "name",
    [
        "../evil",
        "a/../../evil",
        "a/..",
        "/evil",
        "//evil",
        "C:/evil",
        "C:evil",
        "a/c:/evil",
        "..\\evil",
        "\\\\host\\evil",
    ],
)
def test_refuses_names_that_lead_outside(tmp_path: Path, kind: str, name: str) -> None:
    archive = pack(tmp_path / kind, {"first": b"fine", name: b"evil"})
    assert re.search(r"which could lie outside the folder", refusal(archive))
    with pytest.raises(GradcastError) as caught:
        extract(archive, tmp_path / "out")
    assert repr(name) in str(caught.value)


def test_refuses_bottomless_folders(tmp_path: Path) -> None:
    assert re.search("folders deep", refusal(pack(tmp_path / "a.zip", {"a/" * 1000 + "b": b""})))


@pytest.mark.parametrize("kind", ["a.zip", "a.tar.gz"])
def test_dots_and_empty_components_are_harmless(tmp_path: Path, kind: str) -> None:
    extract(pack(tmp_path / kind, {"./a": b"a", "b/.//c": b"c", "..d/e..": b"e"}), tmp_path / "out")
    assert contents(tmp_path / "out") == {"a": b"a", "b/c": b"c", "..d/e..": b"e"}


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
def test_refuses_links_and_devices(tmp_path: Path, kind: bytes) -> None:
    assert re.search(
        "holds 'special', which is a link or a device", refusal(pack_special(tmp_path / "a.tar", kind=kind))
    )


def test_refuses_a_link_in_a_zip(tmp_path: Path) -> None:
    info = zipfile.ZipInfo("special")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(info, "/etc/passwd")
    assert re.search("holds 'special', which is a link or a device", refusal(tmp_path / "a.zip"))


@pytest.mark.parametrize("kind", KINDS)
def test_refuses_more_than_the_limit(tmp_path: Path, kind: str) -> None:
    archive = pack(tmp_path / kind, {"small": b"1", "bomb": bytes(10**6)})
    assert re.search(r"unpacks to more than 1000000 bytes \(at 'bomb'\)", refusal(archive, limit=10**6))
    extract(archive, tmp_path / "out", limit=10**6 + 1)


def test_does_not_believe_a_header_that_promises_little(tmp_path: Path) -> None:
    path = pack(tmp_path / "a.zip", {"bomb": bytes(10**6)})
    size = (10**6).to_bytes(4, "little")
    assert path.read_bytes().count(size) == 2
    path.write_bytes(path.read_bytes().replace(size, (10).to_bytes(4, "little")))
    assert re.search("is damaged", refusal(path, limit=1000))


@pytest.mark.parametrize("kind", KINDS)
def test_truncated_archives(tmp_path: Path, kind: str) -> None:
    path = pack(tmp_path / kind, {str(i): os.urandom(3000) for i in range(5)})
    whole = path.read_bytes()
    end = whole.rstrip(b"\0") if kind == "a.tar" else whole
    for length in (0, 1, 511, 512, 1024, 5000, 3584 + 512, len(end) // 2, len(end) - 1):
        path.write_bytes(whole[:length])
        assert re.search("is damaged.*fetch it again", refusal(path))


def test_a_tar_cut_between_two_members(tmp_path: Path) -> None:
    path = pack(tmp_path / "a.tar", {"1": bytes(512), "2": bytes(512)})
    path.write_bytes(path.read_bytes()[:1024])
    assert re.search("is damaged.*breaks off between two members", refusal(path))


def test_a_broken_header_is_not_the_end(tmp_path: Path) -> None:
    path = pack(tmp_path / "a.tar", {"1": bytes(512), "2": bytes(512)})
    path.write_bytes(path.read_bytes().replace(b"2\0\0\0", b"3\0\0\0", 1))
    assert re.search("is damaged", refusal(path))


@pytest.mark.parametrize("kind", ["a.zip", "a.tar.gz"])
def test_a_wrong_checksum_inside(tmp_path: Path, kind: str) -> None:
    path = tmp_path / kind
    if kind == "a.zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a", b"content")
        path.write_bytes(path.read_bytes().replace(b"content", b"CONTENT"))
    else:
        raw = pack(tmp_path / "b.tar", {"a": b"content"}).read_bytes()
        packed = bytearray(gzip.compress(raw))
        packed[-8] ^= 1
        path.write_bytes(packed)
    assert re.search("is damaged.*CRC", refusal(path))


def test_modes_are_plain(tmp_path: Path) -> None:
    extract(pack_special(tmp_path / "a.tar", kind=tarfile.REGTYPE, mode=0o6711), tmp_path / "1")
    extract(pack_special(tmp_path / "a.tar", kind=tarfile.DIRTYPE, mode=0o1600), tmp_path / "2")
    info = zipfile.ZipInfo("a/b")
    info.external_attr = (stat.S_IFREG | stat.S_ISUID | 0o666) << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(info, b"")
    extract(tmp_path / "a.zip", tmp_path / "3")
    modes = {name: stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("1/first", "2/first", "3/a/b")}
    assert modes == {"1/first": 0o755, "2/first": 0o644, "3/a/b": 0o644}
    assert stat.S_IMODE((tmp_path / "2/special").stat().st_mode) == 0o755
    assert stat.S_IMODE((tmp_path / "3/a").stat().st_mode) == 0o755


def test_what_is_no_archive(tmp_path: Path) -> None:
    (tmp_path / "a.rar").write_bytes(b"Rar!")
    assert re.search("unknown kind; unpack it by hand", refusal(tmp_path / "a.rar"))
    assert re.search("does not exist", refusal(tmp_path / "missing.zip"))


def test_a_target_that_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(GradcastError, match="choose a folder that you may write to"):
        extract(pack(tmp_path / "a.zip", TREE), tmp_path / "file")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.zip", "file"]
