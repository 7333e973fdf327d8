import os
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import ExifTags, Image, ImageOps

from gradcast.data.files import Reader, common_shape, decode, fit, shapes_in
from gradcast.data.limits import LARGEST_IMAGE
from gradcast.data.load import untracked
from gradcast.data.scan import extensions, image_files
from gradcast.errors import GradcastError
from tests.data.images import fill, picture, zipped


def decoded(root: Path, shape: tuple[int, int, int] = (3, 8, 8)) -> tuple[np.ndarray, dict[str, str]]:
    files = image_files(root)
    found = dict(zip(files.names, decode(files, shape, how="fit", track=untracked, what="decoding"), strict=True))
    bad = {name: reason for name, reason in found.items() if isinstance(reason, str)}
    empty = np.zeros((0, *shape), np.uint8)
    return np.stack([x for x in found.values() if not isinstance(x, str)]) if len(bad) < len(found) else empty, bad


def test_nested_folders_and_archives_give_the_same_images(tmp_path: Path) -> None:
    fill(tmp_path / "photos" / "deep" / "er", 3)
    fill(tmp_path / "photos", 2, suffix=".jpg", start=50)
    (tmp_path / "photos" / "notes.txt").write_text("no image")
    archive = zipped(tmp_path / "photos", tmp_path / "photos.zip")
    folder, bad = decoded(tmp_path / "photos")
    from_zip, bad_in_zip = decoded(archive)
    assert len(folder) == 5
    assert bad == bad_in_zip == {}
    assert sorted(x.tobytes() for x in folder) == sorted(x.tobytes() for x in from_zip)


def test_the_fingerprint_follows_the_content(tmp_path: Path) -> None:
    paths = fill(tmp_path / "a", 3)
    before = image_files(tmp_path / "a").fingerprint
    assert image_files(tmp_path / "a").fingerprint == before
    picture(99).save(paths[0])
    os.utime(paths[0], (1, 1))
    assert image_files(tmp_path / "a").fingerprint != before
    assert (
        image_files(tmp_path / "a").only(["000.png"]).fingerprint
        != image_files(tmp_path / "a").only(["001.png"]).fingerprint
    )


def test_unreadable_files_are_named_with_a_reason(tmp_path: Path) -> None:
    fill(tmp_path, 2)
    (tmp_path / "text.png").write_text("no image")
    whole = (tmp_path / "000.png").read_bytes()
    (tmp_path / "cut.png").write_bytes(whole[: len(whole) // 2])
    jpeg = tmp_path / "half.jpg"
    picture(3, (64, 64)).save(jpeg)
    jpeg.write_bytes(jpeg.read_bytes()[: jpeg.stat().st_size // 2])
    (tmp_path / "empty.png").write_bytes(b"")
    (tmp_path / "huge.pgm").write_bytes(b"P5 100000 100000 255\n" + b"\0" * 100)
    _, bad = decoded(tmp_path)
    assert set(bad) == {"text.png", "cut.png", "half.jpg", "empty.png", "huge.pgm"}
    assert all(reason for reason in bad.values())


@pytest.mark.filterwarnings("default")
def test_an_image_that_claims_too_many_pixels_is_refused_whatever_the_warnings(tmp_path: Path) -> None:
    (tmp_path / "bomb.pgm").write_bytes(b"P5 100000 100000 255\n" + b"\0" * 100)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, bad = decoded(tmp_path)
    assert set(bad) == {"bomb.pgm"}


@pytest.mark.parametrize("name", ["../evil.png", "/etc/evil.png", "ok/../../evil.png"])
def test_archives_with_names_that_leave_their_folder_are_not_used(tmp_path: Path, name: str) -> None:
    with zipfile.ZipFile(tmp_path / "evil.zip", "w") as archive:
        archive.writestr(name, b"x")
    with pytest.raises(GradcastError, match="leaves its folder"):
        image_files(tmp_path / "evil.zip")
    assert [path.name for path in tmp_path.rglob("*")] == ["evil.zip"]
    assert not (tmp_path.parent / "evil.png").exists()


def test_what_is_neither_folder_nor_archive(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for name in ("file", "nothing"):
        with pytest.raises(GradcastError, match="neither a folder nor a zip"):
            image_files(tmp_path / name)


def test_fit_is_pillows() -> None:
    image = picture(0, (30, 10))
    bilinear = Image.Resampling.BILINEAR
    assert np.array_equal(fit(image, (3, 8, 8)), np.asarray(ImageOps.fit(image, (8, 8), bilinear)).transpose(2, 0, 1))
    squashed = np.asarray(image.resize((8, 8), bilinear)).transpose(2, 0, 1)
    assert np.array_equal(fit(image, (3, 8, 8), "squash"), squashed)
    assert np.array_equal(fit(image, (1, 10, 30)), np.asarray(image.convert("L"))[None])
    assert fit(image.convert("P"), (3, 4, 4)).shape == (3, 4, 4)
    assert fit(image.convert("RGBA"), (1, 4, 4)).shape == (1, 4, 4)


def shape(root: Path, colour: str = "own", size: int | None = None) -> tuple[int, int, int]:
    return common_shape(shapes_in(image_files(root), track=untracked), root, colour=colour, size=size)


def test_shape_of_a_collection(tmp_path: Path) -> None:
    fill(tmp_path / "same", 300, size=(9, 7))
    assert shape(tmp_path / "same") == (3, 7, 9)
    assert shape(tmp_path / "same", "grey", 5) == (1, 5, 5)
    (tmp_path / "grey").mkdir()
    for number in range(2):
        picture(number, grey=True).save(tmp_path / "grey" / f"{number}.png")
    assert shape(tmp_path / "grey") == (1, 12, 12)
    picture(0).save(tmp_path / "grey" / "one.png")
    assert shape(tmp_path / "grey") == (3, 12, 12)
    fill(tmp_path / "same", 1, size=(20, 20), start=500)  # one among three hundred
    with pytest.raises(GradcastError, match=r"differ in size; set one for all, as in --set stream\.size=32"):
        shape(tmp_path / "same")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "x.png").write_text("no")
    with pytest.raises(GradcastError, match="can be read"):
        shape(tmp_path / "bad")


def test_no_format_that_starts_another_program_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Encapsulated PostScript under another name would make Pillow call an interpreter."""
    postscript = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n"
    (tmp_path / "innocent.png").write_bytes(postscript)
    fake = tmp_path / "bin"
    fake.mkdir()
    (fake / "gs").write_text(f"#!/bin/sh\ntouch {tmp_path}/called\n")
    (fake / "gs").chmod(0o755)
    monkeypatch.setenv("PATH", str(fake), prepend=":")
    _, bad = decoded(tmp_path)
    assert set(bad) == {"innocent.png"}
    assert not (tmp_path / "called").exists()
    assert ".eps" not in extensions()


def test_two_folders_of_equal_names_sizes_and_times_are_not_the_same(tmp_path: Path) -> None:
    for place, value in (("a", 10), ("b", 200)):
        (tmp_path / place).mkdir()
        Image.new("L", (8, 8), value).save(tmp_path / place / "x.bmp")
        os.utime(tmp_path / place / "x.bmp", (1, 1))
    assert image_files(tmp_path / "a").fingerprint != image_files(tmp_path / "b").fingerprint


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_beyond_the_pixel_limit_is_refused_without_decoding(tmp_path: Path) -> None:
    Image.new("1", (10_000, 10_000)).save(tmp_path / "large.png")
    _, bad = decoded(tmp_path)
    assert "more than Pillow's limit" in bad["large.png"]


def test_readers_close_their_archives(tmp_path: Path) -> None:
    fill(tmp_path / "a", 1)
    reader = Reader(image_files(zipped(tmp_path / "a", tmp_path / "a.zip")))
    assert reader.image("a/000.png").size == (12, 12)
    reader.close()
    assert all(archive.fp is None for archive in reader.opened)


def test_mutated_images_are_read_or_named(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    originals = []
    for suffix in (".png", ".jpg", ".bmp", ".gif", ".webp", ".tiff"):
        picture(1, (16, 16)).save(tmp_path / f"whole{suffix}")
        originals.append((suffix, (tmp_path / f"whole{suffix}").read_bytes()))
    folder = tmp_path / "mutated"
    folder.mkdir()
    for number in range(300):
        suffix, content = originals[number % len(originals)]
        raw = bytearray(content)
        for _ in range(int(generator.integers(1, 8))):
            raw[int(generator.integers(len(raw)))] = int(generator.integers(256))
        (folder / f"{number:03d}{suffix}").write_bytes(
            raw[: int(generator.integers(1, len(raw) + 1))] if number % 3 else raw
        )
    out, bad = decoded(folder)
    assert 0 < len(bad) < len(bad) + len(out) == 300


def test_sixteen_bit_and_float_images_keep_their_range() -> None:
    ramp = np.linspace(0, 65535, 64).astype(np.uint16).reshape(8, 8)
    assert np.abs(fit(Image.fromarray(ramp), (1, 8, 8))[0].astype(int) - ramp // 257).max() <= 1
    dark = np.full((8, 8), 200, np.uint16)
    assert fit(Image.fromarray(dark), (1, 8, 8)).max() == 1  # by the kind of image, not by what it holds
    floats = np.linspace(0, 1, 64, dtype=np.float32).reshape(8, 8)
    assert np.abs(fit(Image.fromarray(floats), (1, 8, 8))[0] - 255 * floats).max() <= 1


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".tiff", ".webp"])
def test_images_are_upright_as_the_camera_was_held(tmp_path: Path, suffix: str) -> None:
    wide = Image.fromarray(np.repeat(np.arange(0, 240, 10, dtype=np.uint8)[None], 12, axis=0))
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6  # turned by a quarter
    wide.convert("RGB").save(tmp_path / f"x{suffix}", exif=exif)
    reader = Reader(image_files(tmp_path))
    assert reader.shape(f"x{suffix}") == (3, 24, 12)
    found, bad = decoded(tmp_path, (3, 24, 12))
    expected = np.asarray(wide.convert("RGB").transpose(Image.Transpose.ROTATE_270)).transpose(2, 0, 1)
    assert bad == {}
    assert np.abs(found[0].astype(int) - expected.astype(int)).max() <= (0 if suffix in (".png", ".tiff") else 8)


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data")
def test_a_damaged_orientation_leaves_the_image_as_it_is(tmp_path: Path) -> None:
    picture(0).save(tmp_path / "x.jpg", exif=b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03")
    found, bad = decoded(tmp_path, (3, 12, 12))
    assert (len(found), bad) == (1, {})


def test_whole_numbers_of_32_bits_are_refused_in_words(tmp_path: Path) -> None:
    Image.fromarray(np.arange(64, dtype=np.int32).reshape(8, 8)).save(tmp_path / "x.tiff")
    Image.fromarray(np.arange(64, dtype=np.uint16).reshape(8, 8)).save(tmp_path / "y.tiff")
    found, bad = decoded(tmp_path)
    assert len(found) == 1
    assert list(bad) == ["x.tiff"]
    assert "save it with 8 or 16 bits" in bad["x.tiff"]


@pytest.mark.parametrize("suffix", [".gif", ".png", ".bmp", ".tiff"])
def test_an_image_file_that_is_too_large_is_not_opened(tmp_path: Path, suffix: str) -> None:
    picture(0).save(tmp_path / f"x{suffix}")
    os.truncate(tmp_path / f"x{suffix}", LARGEST_IMAGE + 1)  # sparse
    _, bad = decoded(tmp_path)
    assert "256.0 MB are more than an image file may have" in bad[f"x{suffix}"]


def test_bad_entries_of_an_archive_are_explained_without_objects(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("x.png", b"no image")
    assert decoded(tmp_path / "a.zip")[1] == {"x.png": "no image of a known format"}
