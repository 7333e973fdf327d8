"""Whatever a file holds, it is read or refused in one sentence: ten thousand damaged files, the same every time."""

import gzip
import resource
import shutil
import time
import traceback
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pytest
from scipy.io import savemat

from gradcast.data import mini_imagenet, tiny_imagenet
from gradcast.data import own_images as own
from gradcast.data import pool_images as pools
from gradcast.data.cache import Cache
from gradcast.data.cached_pool import cached_pool
from gradcast.data.cached_source import cached_files, own_shape
from gradcast.data.cifar import BINARY, PYTHON, Layout, read_cifar
from gradcast.data.class_folders import class_folders
from gradcast.data.extract import extract
from gradcast.data.idx import DIGITS, FILES, read_idx_dataset
from gradcast.data.images import Source
from gradcast.data.load import untracked
from gradcast.data.svhn import read_svhn
from gradcast.errors import GradcastError
from gradcast.networks.mlp import MLP
from gradcast.networks.weights import load_weights
from gradcast.reproduce import outcome
from gradcast.reproduce.cells import ROW, Cell
from gradcast.results import comparison, result
from gradcast.results.report import evidence, live, summary
from gradcast.results.report.read import read_run, read_runs
from gradcast.runs.directory import RunDirectory
from gradcast.runs.manifest import NAME
from gradcast.runs.run import run
from gradcast.specs.text import dump, load
from gradcast.verify import replay as verify
from tests.data.hostile import pickled
from tests.data.images import fill, picture, zipped
from tests.data.images import tiny_imagenet as tiny_imagenet_folder
from tests.data.test_extract import TREE, pack
from tests.data.test_idx import write_idx
from tests.mutations import damaged, edited
from tests.networks.test_weights import save
from tests.reproduce.scene import experiment
from tests.results.report.copies import unfinish, with_portrait
from tests.trained_runs import small
from tests.verify.test_replay import CASES, trace

LONGEST = 5.0  # seconds for one small file: far beyond what any takes, far below a hang
MOST_MEMORY = 600 * 2**20  # bytes that a whole reader's files may add to the process
LETTERS = 750  # in a message
Reading = Callable[[], object]
Scene = tuple[Path, Reading]  # a file, and what reads it


@dataclass(frozen=True)
class Reader:
    """Makes a small good file in a folder and says how it is read."""

    name: str
    copies: int
    scene: Callable[[Path], Scene]
    text: bool = False


def surprises(path: Path, read: Reading, copies: Iterator[bytes]) -> tuple[int, Counter[str]]:
    """How many copies were refused, and everything that was neither reading nor refusing in a sentence."""
    refused, found = 0, Counter[str]()
    for index, copy in enumerate(copies):
        path.write_bytes(copy)
        started = time.perf_counter()
        try:
            with warnings.catch_warnings(action="ignore"):  # skipped images and damaged caches are named by warnings
                read()
        except GradcastError as error:
            refused += 1
            if not str(error).isprintable() or len(str(error)) > LETTERS:
                found[f"copy {index}: {str(error)!r:.300}"] += 1
        except Exception as error:  # noqa: BLE001 -- that is the question
            last = traceback.extract_tb(error.__traceback__)[-1]
            found[f"{type(error).__name__} at {last.filename}:{last.lineno}: {error!s:.80}"] += 1
        if time.perf_counter() - started > LONGEST:
            found[f"copy {index} took {time.perf_counter() - started:.1f} s"] += 1
    return refused, found


def idx(folder: Path) -> Scene:
    paths = [folder / f"{name}.gz" for pair in FILES.values() for name in pair]
    for path in paths:
        write_idx(path, np.arange(3) if "labels" in path.name else np.arange(3 * 16).reshape(3, 4, 4))
    return paths[0], lambda: read_idx_dataset("mnist", paths, DIGITS)


def idx_unpacked(folder: Path) -> Scene:
    packed, _ = idx(folder)
    path = packed.with_suffix("")
    path.write_bytes(gzip.decompress(packed.read_bytes()))
    others = [folder / f"{name}.gz" for pair in FILES.values() for name in pair][1:]
    return path, lambda: read_idx_dataset("mnist", [path, *others], DIGITS)


def cifar(folder: Path, layout: Layout, damaged_file: str) -> Scene:
    pixels = np.random.default_rng(0).integers(0, 256, (2, 3072), dtype=np.uint8)
    for file in (*layout.train, *layout.test):
        rows = b"".join(bytes([0, 1])[-layout.label_bytes :] + row.tobytes() for row in pixels)
        content = {b"data": pixels, layout.labels: [0, 1], b"filenames": [b"a", b"b"]}
        (folder / file).write_bytes(rows if layout.label_bytes else pickled(content))
    names = b"apple\nbear\n" if layout.label_bytes else pickled({layout.label_names: [b"apple", b"bear"]})
    (folder / layout.names).write_bytes(names)
    return folder / damaged_file, lambda: read_cifar("cifar-100", folder, layout)


def svhn(folder: Path, *, packed: bool) -> Scene:
    x = np.random.default_rng(0).integers(0, 256, (32, 32, 3, 2), dtype=np.uint8)
    paths = [folder / "train_32x32.mat", folder / "test_32x32.mat"]
    for path in paths:
        savemat(path, {"X": x, "y": np.array([[1], [10]], np.uint8)}, do_compression=packed)
    return paths[0], lambda: read_svhn(paths)


def mini_imagenet_cache(folder: Path) -> Scene:
    paths = [folder / f"mini-imagenet-cache-{split}.pkl" for split in mini_imagenet.SPLITS]
    for path in paths:
        pixels = np.arange(7 * 4 * 4 * 3, dtype=np.uint8).reshape(7, 4, 4, 3)
        path.write_bytes(pickled({"image_data": pixels, "class_dict": {f"{path.stem}-a": list(range(7))}}))
    return paths[0], lambda: mini_imagenet.read_caches(paths)


def tiny_imagenet_list(folder: Path) -> Scene:
    root = tiny_imagenet_folder(folder, classes=2, each=1, val=1)
    return root / "val" / "val_annotations.txt", lambda: tiny_imagenet.tiny_imagenet(root)


def tiny_imagenet_zip(folder: Path) -> Scene:
    root = zipped(tiny_imagenet_folder(folder, classes=2, each=1, val=1), folder / "tiny-imagenet-200.zip")
    return root, lambda: tiny_imagenet.tiny_imagenet(root)


def classes_zip(folder: Path) -> Scene:
    for part in ("train", "test"):
        for label in ("a", "b"):
            fill(folder / "set" / part / label, 1, size=(4, 4))
    path, made = folder / "set.zip", Cache(folder / "cache")
    with zipfile.ZipFile(path, "w") as out:
        for image in sorted((folder / "set").rglob("*.png")):
            out.writestr(str(image.relative_to(folder / "set")), image.read_bytes())

    def read() -> Source:
        files = class_folders(path)
        return cached_files(files, own_shape(files, made, colour="own", size=4, track=untracked), made, track=untracked)

    return path, read


def pool_image(folder: Path, suffix: str) -> Scene:
    (folder / "pool").mkdir()
    path = folder / "pool" / f"x{suffix}"
    picture(1, (16, 16)).save(path)

    def read() -> np.ndarray:
        files = pools.any_images(path.parent)
        kept = Cache(folder / "cache")
        return cached_pool("pool", files, (3, 4, 4), kept, squash=False, track=untracked).take(np.arange(1))

    return path, read


def cub_list(folder: Path, file: str) -> Scene:
    fill(folder / "images" / "001.A", 2, suffix=".jpg", size=(4, 4))
    (folder / "images.txt").write_text("1 001.A/000.jpg\n2 001.A/001.jpg\n")
    (folder / "train_test_split.txt").write_text("1 1\n2 1\n")
    return folder / file, lambda: pools.cub(folder)


def aircraft_list(folder: Path) -> Scene:
    fill(folder / "data" / "images", 2, suffix=".jpg", size=(4, 4))
    (folder / "data" / "images_train.txt").write_text("000\n001\n")
    return folder / "data" / "images_train.txt", lambda: pools.aircraft(folder)


def archive(folder: Path, name: str) -> Scene:
    members = {key: value[:64] for key, value in TREE.items()}
    return pack(folder / name, members), lambda: extract(folder / name, folder / "out", limit=2**20)


def cached(folder: Path, file: str) -> Scene:
    def build(to: Path) -> None:
        np.save(to / "x.npy", np.arange(6).reshape(2, 3))

    made = Cache(folder / "cache")
    made.get("set", {}, build)
    (path,) = folder.rglob(file)
    return path, lambda: made.get("set", {}, build)["x"]


def npz(folder: Path) -> Scene:
    path, x, y = folder / "mine.npz", np.arange(32, dtype=np.uint8).reshape(2, 4, 4), np.array([0, 1])
    np.savez_compressed(path, x_train=x, y_train=y, x_test=x, y_test=y)
    return path, lambda: own.read_npz(path)


def weights(folder: Path, name: str) -> Scene:
    network = MLP([4, 3, 2], norm="batch")
    return save(network.state_dict(), folder / name), lambda: load_weights(network, folder / name)


def trajectory(folder: Path) -> Scene:
    path = trace(
        folder / "t.npz", **CASES[1], tasks=1, steps=1, classes_per_task=4, masked=False, alpha=0.4, loss_scale=7.0
    )
    return path, lambda: verify.replay(path)


def specification(folder: Path) -> Scene:
    path = folder / "mine.toml"
    path.write_text(dump(small()))
    return path, lambda: load(str(path))


def setting(folder: Path) -> Scene:
    """Each line of the file is what follows --set."""
    path = folder / "settings"
    path.write_text("stream.tasks=3\nmodel.hidden=[12, 3]\nrow.base.learner.name='gem'\nseeds=[0]\nstream.ratio=0.5\n")
    return path, lambda: load("digits", path.read_text(encoding="utf-8", errors="replace").split("\n")[:-1])


@cache
def tiny() -> Path:
    """Two rows, two seeds, a few steps."""
    spec = small("stream.tasks=2", "stream.samples=20", "seeds=[0, 1]")
    return run(spec.model_copy(update={"rows": spec.rows[:2]}), out=Path(mkdtemp()), device="cpu")[0].path


def tiny_run(folder: Path) -> RunDirectory:
    """A copy that may be damaged."""
    kept = shutil.ignore_patterns("report*", "*.png", "weights.safetensors", NAME)
    return RunDirectory(shutil.copytree(tiny(), folder / "runs" / "digits-1", ignore=kept))


def report(folder: Path, file: str) -> Scene:
    """Everything that a report says of a run before it is drawn, and what a comparison says."""
    directory = tiny_run(folder)

    def read() -> None:
        found = read_runs(directory.path.parent)
        for own_run in found.runs:
            for make in (
                evidence.results_table,
                evidence.diagnostics_table,
                evidence.cost_table,
                evidence.features_table,
            ):
                table = make(own_run)
                assert all((table.html(), table.csv(), table.latex()))
            assert summary.findings(own_run)
        assert live.progress(found)
        for sentence in found.damage:
            raise GradcastError(sentence)

    return directory.path / file, read


def features(folder: Path) -> Scene:
    """The same of a row with shared and private features."""
    path, read = report(folder, f"{SEED}/features.json")
    directory = RunDirectory(path.parents[2])
    with_portrait(directory, "base")

    return path, read


def results(folder: Path, file: str) -> Scene:
    directory = tiny_run(folder)
    return directory.path / file, lambda: result.read(directory)


def compared(folder: Path, file: str) -> Scene:
    directory = tiny_run(folder)
    return directory.path / file, lambda: comparison.compare(directory.path / "base", directory.path)


def on_its_way(folder: Path, file: str) -> Scene:
    directory = tiny_run(folder)
    unfinish(directory, "base", 2)

    def read() -> None:
        for sentence in read_run(directory.path).damage:
            raise GradcastError(sentence)

    return directory.path / file, read


def cell(folder: Path, file: str) -> Scene:
    item = experiment().item("gem")
    assert item.setting is not None
    own_cell = Cell(item.setting)
    own_cell.train([0, 1], folder, None, "cpu", None)
    (place,) = own_cell.directories(folder)
    (place.path / ROW / NAME).unlink()

    def read() -> object:
        return own_cell.results(folder, steps=True), outcome.trained(item, [0, 1], "float32", folder)

    return place.path / file, read


SEED = "base/seed-0"
READERS = [
    Reader("idx", 700, idx),
    Reader("idx unpacked", 600, idx_unpacked),
    Reader("cifar pickle", 700, lambda folder: cifar(folder, PYTHON["cifar-100"], "train")),
    Reader("cifar names", 600, lambda folder: cifar(folder, PYTHON["cifar-100"], "meta")),
    Reader("cifar binary", 300, lambda folder: cifar(folder, BINARY["cifar-100"], "train.bin")),
    Reader("cifar binary names", 200, lambda folder: cifar(folder, BINARY["cifar-100"], "fine_label_names.txt"), True),
    Reader("svhn", 500, lambda folder: svhn(folder, packed=True)),
    Reader("svhn unpacked", 600, lambda folder: svhn(folder, packed=False)),
    Reader("mini-imagenet", 900, mini_imagenet_cache),
    Reader("tiny-imagenet labels", 200, tiny_imagenet_list, True),
    Reader("tiny-imagenet zip", 400, tiny_imagenet_zip),
    Reader("classes in a zip", 150, classes_zip),
    *(
        Reader(f"image{suffix}", 80, lambda folder, suffix=suffix: pool_image(folder, suffix))
        for suffix in (".png", ".jpg", ".bmp", ".gif", ".ppm", ".webp", ".tiff")
    ),
    Reader("cub names", 100, lambda folder: cub_list(folder, "images.txt"), True),
    Reader("cub split", 100, lambda folder: cub_list(folder, "train_test_split.txt"), True),
    Reader("aircraft", 100, aircraft_list, True),
    *(
        Reader(f"archive {name}", 150, lambda folder, name=name: archive(folder, name))
        for name in ("a.zip", "a.tar", "a.tgz")
    ),
    Reader("cache", 200, lambda folder: cached(folder, "x.npy")),
    Reader("cache key", 150, lambda folder: cached(folder, "key.json"), True),
    Reader("npz", 800, npz),
    Reader("safetensors", 1000, lambda folder: weights(folder, "w.safetensors")),
    Reader("torch", 700, lambda folder: weights(folder, "zipped.pth")),
    Reader("torch legacy", 700, lambda folder: weights(folder, "legacy.pt")),
    Reader("trajectory", 60, trajectory),
    Reader("specification", 300, specification, True),
    Reader("--set", 200, setting, True),
    Reader("report spec", 30, lambda folder: report(folder, "spec.toml"), True),
    Reader("report metrics", 40, lambda folder: report(folder, f"{SEED}/metrics.jsonl"), True),
    Reader("report accuracy", 40, lambda folder: report(folder, f"{SEED}/accuracy.csv"), True),
    Reader("report features", 30, features, True),
    Reader("report environment", 40, lambda folder: report(folder, "base/env.json"), True),
    Reader("result metrics", 120, lambda folder: results(folder, f"{SEED}/metrics.jsonl"), True),
    Reader("result accuracy", 120, lambda folder: results(folder, f"{SEED}/accuracy.csv"), True),
    Reader("result spec", 80, lambda folder: results(folder, "spec.toml"), True),
    Reader("comparison spec", 60, lambda folder: compared(folder, "spec.toml"), True),
    Reader("comparison stream", 60, lambda folder: compared(folder, "base/stream.json"), True),
    Reader("comparison accuracy", 60, lambda folder: compared(folder, f"{SEED}/accuracy.csv"), True),
    Reader("progress metrics", 60, lambda folder: on_its_way(folder, f"{SEED}/metrics.jsonl"), True),
    Reader("progress accuracy", 60, lambda folder: on_its_way(folder, f"{SEED}/accuracy.csv"), True),
    Reader("cell spec", 50, lambda folder: cell(folder, "spec.toml"), True),
    Reader("cell stream", 50, lambda folder: cell(folder, f"{ROW}/stream.json"), True),
    Reader("cell environment", 60, lambda folder: cell(folder, f"{ROW}/env.json"), True),
    Reader("cell metrics", 60, lambda folder: cell(folder, f"{ROW}/seed-0/metrics.jsonl"), True),
]


def test_there_are_ten_thousand() -> None:
    assert sum(reader.copies for reader in READERS) >= 10_000
    assert len({reader.name for reader in READERS}) == len(READERS)


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_damaged_files_are_read_or_refused(reader: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as stopped:  # archives tell when they were made, and are to be the same every time
        stopped.setattr(time, "time", lambda: 1e9)
        stopped.setattr(time, "asctime", lambda: "Sun Sep  9 01:46:40 2001")
        path, read = reader.scene(tmp_path)
    read()  # the good file
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    change = edited if reader.text else damaged
    refused, found = surprises(path, read, change(path.read_bytes(), reader.copies))
    assert dict(found) == {}
    assert refused > 0 or "cache" in reader.name  # what a cache cannot read, it makes anew
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < MOST_MEMORY
