"""From the table [stream] to tasks: the images of a source under a scenario, or tasks of the user's own."""

from collections.abc import Callable, Mapping, Sequence

from gradcast.data.images import Source, is_vector
from gradcast.data.load import Shelf, load_source, load_tasks
from gradcast.data.own_tasks import OwnTasks
from gradcast.errors import GradcastError
from gradcast.specs.spec import StreamSpec
from gradcast.specs.vector_rules import check_stream
from gradcast.streams import scenarios
from gradcast.streams.blurry import blurred
from gradcast.streams.named_augmentations import named
from gradcast.streams.scale import Scale, scale_for, vector_scale
from gradcast.streams.stream import Stream, Task
from gradcast.streams.validation_images import tuning_source

# The tasks, what was drawn; and the tasks of a seed, where every seed has its own.
OwnTasksOf = Callable[[int], Sequence[Task]]
Made = tuple[Sequence[Task], Mapping[str, object], OwnTasksOf | None]


def stream(spec: StreamSpec, shelf: Shelf, source: Source | OwnTasks | None = None) -> Stream:
    """The stream of labelled tasks; ``source`` where the images come from the caller."""
    found = _source(spec, shelf, source)
    if spec.validation:
        found = tuning_source(found, spec.validation, spec.data_seed)
    if is_vector(found.shape):
        check_stream(spec)
    tasks, facts, own_tasks = _own(spec, found) if isinstance(found, OwnTasks) else _made(spec, found)
    if spec.blurry:
        tasks, mixed = blurred(tasks, spec.blurry, spec.data_seed)
        facts = {**facts, **mixed}
    tasks, own_tasks = _first(tasks, spec.first_tasks), _first_of_each(own_tasks, spec.first_tasks)
    samples, shape = None if spec.samples == "all" else spec.samples, found.shape
    if samples is not None and spec.validation:  # some of those that were asked for are held out
        samples = min(samples, *(len(task.train) for task in tasks))
    for index, task in enumerate(tasks):
        if samples is not None and samples > len(task.train):
            raise GradcastError(
                f"task {index} has {len(task.train)} training images, stream.samples asks for {samples}; lower it"
            )
    if "rotate" in spec.augment and shape[1] != shape[2]:
        raise GradcastError(f"'rotate' needs square images, these have {shape[1]} x {shape[2]} pixels; set stream.size")
    return Stream(
        tasks,
        shape,
        {**facts, "classes": list(found.classes), "images_per_class": found.counts()},
        found.content,
        samples,
        spec.ratio,
        None if spec.labels == "all" else spec.labels,
        _scale(spec, found),
        named(spec.augment, shape),
        own_tasks,
        found.classes_in_words(),
    )


def _source(spec: StreamSpec, shelf: Shelf, source: Source | OwnTasks | None) -> Source | OwnTasks:
    size = None if spec.size == "own" else spec.size
    if source is not None:
        return source.converted(spec.colour, size)
    if spec.source == "tasks":
        return load_tasks(spec.path, shelf, size=size, colour=spec.colour, data_seed=spec.data_seed)
    path = str(spec.path)
    return load_source(spec.source, shelf, path=path, size=size, colour=spec.colour, data_seed=spec.data_seed)


def _scale(spec: StreamSpec, found: Source | OwnTasks) -> Scale:
    if not is_vector(found.shape):
        return scale_for(spec.normalise, found.shape[0], lambda: found.moments)
    sources = found.sources if isinstance(found, OwnTasks) else (found,)
    return vector_scale(spec.normalise, [source.train.x for source in sources])


def _own(spec: StreamSpec, found: OwnTasks) -> Made:
    if spec.tasks not in ("own", len(found.names)):
        raise GradcastError(
            f"stream.tasks = {spec.tasks} and {found.name} has {len(found.names)} tasks; leave stream.tasks out"
        )
    return *scenarios.own(found), None


def _first(tasks: Sequence[Task], count: int | str) -> Sequence[Task]:
    return tasks[:count] if isinstance(count, int) else tasks


def _first_of_each(own_tasks: OwnTasksOf | None, count: int | str) -> OwnTasksOf | None:
    return None if own_tasks is None else lambda seed: _first(own_tasks(seed), count)


def _made(spec: StreamSpec, found: Source) -> Made:
    tasks, per_task = spec.all_tasks, None if spec.classes_per_task == "even" else spec.classes_per_task
    match spec.scenario:
        case "rotated":
            return *scenarios.rotated(found, tasks, spec.data_seed), None
        case "permuted":
            return *scenarios.permuted(found, tasks, spec.data_seed), None
        case "own":
            raise GradcastError(
                "stream.scenario = 'own' needs tasks: bring gradcast.own_tasks(...), or set it to rotated, permuted or "
                "split"
            )
    if spec.class_order == "seeded":
        own_tasks, facts = scenarios.seeded(found, tasks, classes_per_task=per_task)
        return own_tasks(0), facts, own_tasks
    order = spec.class_order
    return *scenarios.split(found, tasks, spec.data_seed, classes_per_task=per_task, class_order=order), None
