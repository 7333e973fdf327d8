"""``gradcast.pretrain``: only the head start, from a pool of images to a file of weights."""

import fcntl
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

from torch import Tensor, nn

from gradcast.cluster.ranks import Ranks
from gradcast.cluster.same_files import hand_out
from gradcast.data.cache import Cache, default_cache
from gradcast.data.load import Shelf, default_data, untracked
from gradcast.devices import Arithmetic, choose_place
from gradcast.errors import GradcastError
from gradcast.head_start import pretrained
from gradcast.head_start.course import Course
from gradcast.head_start.make import UNFINISHED, Saving, head_starts
from gradcast.head_start.pretrain_course import Model, PoolImages, pretrain_course
from gradcast.head_start.pretrain_options import PoolColour, PoolScale, PretrainOptions, own_words
from gradcast.head_start.pretrained import Pretrained
from gradcast.head_start.store import Store
from gradcast.randomness import seeded
from gradcast.runs.api import progress_display, set_threads
from gradcast.runs.checkpoint.keeper import Safety
from gradcast.runs.checkpoint.stop import Stop
from gradcast.runs.memory_errors import memory_for


def pretrain(
    pool: PoolImages,
    model: Model = "slim-resnet18",
    *,
    steps: int = 6000,
    batch: int = 512,
    out: Path | str = "weights.safetensors",
    settings: Sequence[str] = (),
    size: int = 32,
    colour: PoolColour = "rgb",
    normalise: PoolScale = "unit",
    seed: int = 0,
    outputs: int = 10,
    data: Path | str | None = None,
    device: str = "auto",
    dtype: Arithmetic = "float32",
    threads: int | None = None,
    progress: bool | None = None,
    safety: Safety | None = None,
    ranks: Ranks | None = None,
) -> Pretrained:
    """Train a network on unlabelled images by signals that need no labels, and write its weights to a file.

    A head start that was stopped goes on from its newest checkpoint when it is asked for again, on a CPU to the same
    bytes. One that is finished is not trained again. SIGINT and SIGTERM end it after a step and a checkpoint.

    Example:
        >>> made = gradcast.pretrain("photos", "slim-resnet18", steps=6000, batch=512)
        >>> network.load_state_dict(made.weights, strict=False)  # the output layer is not among them

    Args:
        pool: a folder or zip archive of images, the name of a pool ("tiny-imagenet", "coco", "patches" ...), or images
            themselves: bytes or numbers from 0 to 1, N x H x W, N x H x W x C or N x C x H x W.
        model: a network's name, "module:Class", a ``torch.nn.Module`` (copied, its weights are where training begins),
            or a function or class that makes one, called with ``outputs`` and ``shape`` where it has these keywords.
        steps: how many.
        batch: images a step, each in as many views as the signal wants.
        out: the file, ``.safetensors``.
        settings: further keys of [model], [head_start] and [pool], as in "head_start.lr=0.1".
        size: pixels a side; images are cut to the middle and scaled.
        colour: "rgb" or "grey".
        normalise: "unit", "cifar" or "imagenet", as ``stream.normalise``.
        seed: of initial weights, batches and augmentations.
        outputs: of the output layer, which stays as it begins; a module of your own has its own number.
        data: folder of datasets; None takes $GRADCAST_DATA, or else ./data.
        device: "cpu", "cuda", "cuda:1" and so on; "auto" takes a GPU where there is one.
        dtype: "float32", "float64", and on a GPU "tf32" or "bf16".
        threads: CPU threads for torch, for the whole process; None leaves torch's setting as it is.
        progress: whether to show a progress bar on standard error; None shows it in terminals and notebooks.
        safety: when checkpoints are written, and whether to resume.
        ranks: the processes that train together, as ``gradcast.cluster.torchrun.joined`` gives them.
    """
    set_threads(threads)
    path, stop, safety = Path(out) if ranks is None else ranks.own(Path(out)), Stop(), safety or Safety()
    place = choose_place(device, dtype, ranks)
    options = PretrainOptions(steps, batch, size, colour, normalise, tuple(settings))
    with (
        progress_display(progress) as display,
        own_words(),
        memory_for(f"batches of {batch} images", "lower --batch or --size"),
        _beside(path) as folder,
    ):
        track = untracked if display is None else display.track
        shelf = Shelf(default_data() if data is None else Path(data), Cache(default_cache()), track)
        with nullcontext() if ranks is None else ranks.one_here_first():
            course = pretrain_course(pool, model, options, shelf, place, outputs=outputs)
        hand_out(ranks, [folder])
        key = course.keys([seed])[0]
        found = pretrained.find(path, key) if ranks is None else ranks.from_first(lambda: pretrained.find(path, key))
        if found is None:
            saving, show = Saving(folder, safety, stop), None if display is None else display.row
            if safety.start == "resume" and not any(folder.glob(f"{UNFINISHED}*")):
                raise GradcastError(f"there is no unfinished head start beside {path}; run it without --resume")
            with stop.listening():
                (made,) = head_starts(
                    course, [seed], Store(shelf.cache), probe=lambda _: None, show=show, saving=saving
                )
            told = {"key": key, "seed": seed, "steps": steps, "loss": made.told["loss"]}
            pretrained.write(path, made.weights, told, folder)
            found = pretrained.WeightFile(made.weights, told)
        elif display is not None:
            display.skipped(str(path))
        shutil.rmtree(folder)
    curve = [(int(done), float(loss)) for done, loss in found.told["loss"]]
    return Pretrained(found.weights, curve, _module(course, found.weights, seed), path, steps, seed)


def _module(course: Course, weights: dict[str, Tensor], seed: int) -> nn.Module:
    """The network as this seed begins with it, then these weights before its output layer."""
    with seeded(seed, "model"):
        made = course.network().to(course.place.dtype)
    made.load_state_dict(made.state_dict() | weights)
    return made.eval()


@contextmanager
def _beside(path: Path) -> Iterator[Path]:
    """A folder beside the file for checkpoints and what is not whole yet; nobody else may use it meanwhile."""
    if path.suffix != ".safetensors":
        raise GradcastError(f"--out {path} does not end in .safetensors; call it {path.stem or 'weights'}.safetensors")
    if path.is_dir():
        raise GradcastError(f"--out {path} is a folder; name a file in it")
    folder = path.with_name(f".{path.name}.unfinished")
    try:
        folder.mkdir(exist_ok=True)
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise GradcastError(
            f"{path} cannot be written ({error.strerror}); make its folder, or choose another --out"
        ) from None
    try:
        _lock(handle, path)
        yield folder
    finally:
        os.close(handle)
        for empty in (*(folder.iterdir() if folder.is_dir() else ()), folder):
            with suppress(OSError):
                empty.rmdir()


def _lock(handle: int, path: Path) -> None:
    """It ends with the process, however that ends."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise GradcastError(f"another process is making {path}; wait for it or choose another --out") from None
