from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
import torch
from typer.testing import CliRunner

from gradcast.cli import data_command
from gradcast.cli.app import app
from gradcast.data.cache import Cache, default_cache
from gradcast.data.catalogue import CATALOGUE
from gradcast.data.check import file_digest
from gradcast.data.fetch import Download
from gradcast.data.registry import DATASETS
from gradcast.errors import GradcastError
from gradcast.head_start.store import NAME, TOLD, WEIGHTS, Store
from gradcast.streams.own_pool import OwnImages
from gradcast.streams.pool import Pool
from tests.data.images import fill, tiny_imagenet, zipped


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GRADCAST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "120")


def data(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["data", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result.output


def test_list_says_what_is_found_where(tmp_path: Path) -> None:
    fill(tmp_path / "cub", 2)
    listed = data("list", "--data", str(tmp_path))
    assert all(name in listed for name in CATALOGUE)
    assert "cub, 0 MB" in listed.replace("\n", "")
    assert "embedded" in listed


def test_check_says_ok_or_exits_with_1(tmp_path: Path) -> None:
    (path, *_) = fill(tmp_path / "coco", 3)
    assert data("check", "coco", "--data", str(tmp_path)).endswith("coco: ok\n")
    path.write_text("no image")
    said = data("check", "coco", "--data", str(tmp_path), code=1)
    assert str(path) in said
    assert said.endswith("coco: has unreadable images, which a run leaves out\n")


def test_check_of_an_own_folder(tmp_path: Path) -> None:
    for label in ("cat", "dog"):
        fill(tmp_path / "pets" / label, 5)
    (tmp_path / "pets" / "cat" / "\x1b[2J.heic").touch()
    said = data("check", "folder", "--path", "pets", "--data", str(tmp_path))
    assert "folder: 2 classes with images to train and to test on: cat (4 and 1), dog (4 and 1)\n" in said
    assert "left out: 1 .heic (cat/?[2J.heic)" in said
    assert said.endswith("folder: ok\n")
    for arguments in (["folder"], ["coco", "--path", "pets"]):
        with pytest.raises(GradcastError, match="--path belongs to the names 'folder' and 'tasks'"):
            data("check", *arguments, "--data", str(tmp_path))


def test_check_of_own_tasks(tmp_path: Path) -> None:
    for place in ("1/cat", "1/dog", "2/cat"):
        fill(tmp_path / "photos" / place, 5)
    said = data("check", "tasks", "--path", "photos", "--data", str(tmp_path))
    assert "tasks: task '2': 4 images to train and 1 to test on; again: cat\n" in said
    assert said.endswith("tasks: ok\n")


def test_unknown_names_are_answered_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(GradcastError, match=r"no dataset 'cifar-1000'; did you mean 'cifar-100'\?"):
        data("check", "cifar-1000", "--data", str(tmp_path))
    with pytest.raises(GradcastError, match=r"no direct download: get it from https://cocodataset\.org"):
        data("fetch", "coco", "--data", str(tmp_path))


def test_fetch_downloads_verifies_and_unpacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served, target = tmp_path / "served", tmp_path / "data"
    archive = zipped(tiny_imagenet(served), served / "tiny-imagenet-200.zip")
    quiet = type("Quiet", (SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(quiet, directory=str(served)))  # type: ignore[arg-type]
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.server_address[1]}/tiny-imagenet-200.zip"
        checksum = f"sha256:{file_digest(archive, 'sha256')}"
        item = Download(url, archive.name, checksum, archive.stat().st_size, unpack=True)
        original = CATALOGUE["tiny-imagenet"]
        changed = type(original)(**{**vars(original), "downloads": (item,)})
        monkeypatch.setitem(DATASETS, "tiny-imagenet", changed)  # type: ignore[arg-type]
        said = data("fetch", "tiny-imagenet", "--data", str(target))
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert f"tiny-imagenet is in {target / 'tiny-imagenet-200'}" in said
    assert data("check", "tiny-imagenet", "--data", str(target)).endswith("ok\n")


def test_show_draws_presets_datasets_and_settings(tmp_path: Path) -> None:
    fill(tmp_path / "cub", 30)
    for arguments in (["digits"], ["cub"], ["digits", "--set", "pool.name=cub", "--set", "pool.transform=cub"]):
        out = tmp_path / "sheet.png"
        out.unlink(missing_ok=True)
        assert f"wrote {out}" in data("show", *arguments, "--data", str(tmp_path), "--out", str(out))
        assert out.stat().st_size > 10_000


def test_the_sheet_of_few_labels_shows_the_tasks_own_unlabelled_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Pool | OwnImages] = []
    monkeypatch.setattr(data_command, "contact_sheet", lambda stream, pools, out: drawn.extend(pools))
    data("show", "digits-100", "--out", str(tmp_path / "sheet.png"))
    (pool,) = drawn
    assert isinstance(pool, OwnImages)
    assert (pool.which, len(pool)) == ("unlabelled", 1197)


@pytest.mark.parametrize("preset", ["digits-100", "svhn-1000", "cifar10-4000", "cifar100-10000"])
def test_few_labels_name_no_other_pool(preset: str) -> None:
    shown = CliRunner().invoke(app, ["ssl", preset, "--show"]).output
    assert 'name = "unlabelled"' in shown
    assert "patches" not in shown


def test_cache_is_shown_and_emptied(tmp_path: Path) -> None:
    fill(tmp_path / "cub", 30)
    data("show", "cub", "--data", str(tmp_path), "--out", str(tmp_path / "sheet.png"))
    assert "cub-" in data("cache")
    assert "freed" in data("cache", "--clear")
    assert "cub-" not in data("cache")


def test_the_whole_cache_is_checked_and_damage_is_named_and_deleted(tmp_path: Path) -> None:
    fill(tmp_path / "cub", 30)
    data("show", "cub", "--data", str(tmp_path), "--out", str(tmp_path / "sheet.png"))
    store = Store(Cache(default_cache()))
    store.keep("k", {"w": torch.ones(3)}, {"steps": 6000, "seed": 2})
    count = len(store.cache.entries())
    assert f"{count} of {count} entries are as they were written" in data("cache", "check")
    weights = store.cache.place(NAME, {"head start": "k"}) / WEIGHTS
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    said = data("cache", "check", code=1)
    assert f"{weights.parent}: {WEIGHTS} has other content than was written" in said
    assert "deleted 1; they are made again when needed" in said
    assert not weights.exists()
    assert len(store.cache.entries()) == count - 1


def test_head_starts_are_told_apart_and_cleared_alone(tmp_path: Path) -> None:
    fill(tmp_path / "cub", 30)
    data("show", "cub", "--data", str(tmp_path), "--out", str(tmp_path / "sheet.png"))
    store = Store(Cache(default_cache()))
    store.keep("k", {"w": torch.ones(3)}, {"steps": 6000, "seed": 2})
    store.keep("damaged", {"w": torch.ones(3)}, {"steps": 6000, "seed": 2})
    (store.cache.place(NAME, {"head start": "damaged"}) / TOLD).write_text("{")
    shown = data("cache")
    images, head_starts = shown.split("head starts:")
    assert "images:" in images
    assert "cub-" in images
    assert "6000 steps, seed 2" in head_starts
    assert "damaged" in head_starts
    assert "cub-" not in data("cache", "--only", "head-starts")
    assert "freed" in data("cache", "--only", "head-starts", "--clear")
    assert "head starts" not in data("cache")
    assert "cub-" in data("cache", "--only", "images")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "pool.name=python"], "the pool 'python' is images"),
        (["--set", "stream.source=python"], "the source 'python' is images"),
        (["--out", "sheet.foo"], "call it something.png"),
    ],
)
def test_show_explains_what_it_cannot_draw(arguments: list[str], message: str) -> None:
    with pytest.raises(GradcastError, match=message):
        data("show", "digits", *arguments)
