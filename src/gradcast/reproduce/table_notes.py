"""What stands under a table: how many unlabelled images its rows draw from, and how large the gradient learner is.

Trained rows have stored both. Of others, and of files of earlier versions, the settings and the catalogue tell.
"""

from collections.abc import Sequence

from gradcast.data.registry import DATASETS
from gradcast.reproduce.outcome import Line
from gradcast.reproduce.reproduce import Request
from gradcast.reproduce.rows import left_out
from gradcast.results.sizes import by_row, of_h
from gradcast.signals.predicted import PredictedSpec, parameters_of_h
from gradcast.specs.controls import pools_used
from gradcast.specs.spec import Setting
from gradcast.streams.pool import share_of
from gradcast.streams.pool_tables import BlankSpec, OwnPoolSpec, PatchesSpec, PoolSpec

UP_TO = "up to"
UNSURE = "Up to: the size of the complete pool; how many images it had was not stored"


def notes(wanted: Request, found: Sequence[Line]) -> list[str]:
    """Sentences without their full stop, about the rows that have numbers, or all where none has."""
    lines = [line for line in found if line.ours] or found
    pools = by_row([(line.item.label, told) for line in lines if (told := _pools(line))])
    h = of_h([(line.item.label, _h_parameters(line)) for line in lines])
    published = wanted.experiment.header.h_parameters
    beside = f" (published: {published:,})" if published else ""
    unsure = [UNSURE] if UP_TO in pools else []
    return [*([f"Pool: {pools}"] if pools else []), *unsure, *([h + beside] if h else []), *left_out(wanted, found)]


def _pools(line: Line) -> str:
    """Every pool of a row with its size; empty where the row uses none."""
    setting = line.item.setting
    if setting is None:
        return ""
    used = [pool.name for pool in pools_used(setting)]
    stored: Sequence[int | None] = () if line.trained is None else line.trained.pool_images
    counts = stored or [None] * len(setting.pool)
    told = [
        _pool(pool, count, whole_pool(pool, setting), measured=bool(line.ours))
        for pool, count in zip(setting.pool, counts, strict=True)
        if pool.name in used
    ]
    return " and ".join(told)


def _pool(pool: PoolSpec, stored: int | None, whole: int | None, *, measured: bool) -> str:
    """A pool and its size: as stored, or as settings and catalogue have it; of old files only the latter is known."""
    name = "the task itself" if isinstance(pool, OwnPoolSpec) else pool.name
    if isinstance(pool, PatchesSpec | BlankSpec) or not measured:
        stored = stored or whole
    if stored is not None:
        return f"{stored:,} images of {name}"
    return f"images of {name}" if whole is None else f"{UP_TO} {whole:,} images of {name}"


def whole_pool(pool: PoolSpec, setting: Setting) -> int | None:
    """Images that may be drawn where the data are complete; None where only the data tell."""
    match pool:
        case PatchesSpec() | BlankSpec():
            images: int | None = pool.count
        case OwnPoolSpec():
            return _without_label(setting) if pool.name == "unlabelled" else None
        case _:
            images = DATASETS[pool.name].pool_size if pool.name in DATASETS else None
    return None if images is None else share_of(images, pool.ratio)


def _without_label(setting: Setting) -> int | None:
    """Images of a single task that have no label."""
    stream = setting.stream
    known = DATASETS[stream.source].expected if stream.source in DATASETS else None
    images = known[0] if known is not None and stream.samples == "all" else stream.samples
    if setting.one_task is None or stream.validation or images == "all" or stream.labels == "all":
        return None
    return images - stream.labels


def _h_parameters(line: Line) -> int | None:
    """Parameters of a row's h, as stored or by its settings; None where it has none, or its classes are not known."""
    setting = line.item.setting
    if setting is None or (line.trained is not None and line.trained.h_parameters is not None):
        return None if line.trained is None else line.trained.h_parameters
    classes = _classes(setting)
    tables = [own for own in setting.signals if isinstance(own, PredictedSpec)]
    return sum(parameters_of_h(own, classes) for own in tables) if tables and classes is not None else None


def _classes(setting: Setting) -> int | None:
    """Logits that h sees, where the catalogue knows the classes of the source."""
    stream = setting.stream
    known = DATASETS[stream.source].expected if stream.source in DATASETS else None
    if known is None:
        return None
    if stream.scenario != "split":
        return known[2]
    tasks = stream.task_count
    each = known[2] // tasks if stream.classes_per_task == "even" else stream.classes_per_task
    return each if setting.masked else each * tasks
