"""From a name to images: sources for streams and images for pools, through the cache."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from gradcast.data.cache import Cache
from gradcast.data.cached_pool import array_pool, cached_pool
from gradcast.data.cached_source import cached_arrays, cached_files, own_shape
from gradcast.data.catalogue import Dataset
from gradcast.data.class_folders import class_folders
from gradcast.data.digits import digits
from gradcast.data.files import Track
from gradcast.data.images import Colour, Shape, Source
from gradcast.data.labelled import LabelledFiles
from gradcast.data.own_images import read_npz
from gradcast.data.own_tasks import OwnTasks, told_of
from gradcast.data.pool_images import any_images
from gradcast.data.registry import DATASETS
from gradcast.data.stored_images import StoredImages
from gradcast.data.task_folders import TaskPlace, find_tasks
from gradcast.errors import GradcastError, message_of


def default_data() -> Path:
    """The folder of datasets: $GRADCAST_DATA, else ./data."""
    return Path(os.environ.get("GRADCAST_DATA", "data"))


@dataclass(frozen=True)
class Shelf:
    """Where datasets lie, where decoded ones are kept, and who shows the progress."""

    data: Path
    cache: Cache
    track: Track

    def find(self, path: str, key: str) -> Path:
        """A path of the specification: a relative one is looked up in the data folder, then in the working folder."""
        wanted = Path(os.path.expanduser(path))
        places = [wanted] if wanted.is_absolute() else [self.data / wanted, wanted]
        for place in places:
            try:
                if place.exists():
                    return place.resolve()
            except (OSError, RuntimeError) as error:  # no right to look, a name too long, a circle of links
                raise GradcastError(f"{place} cannot be read ({message_of(error)}); set {key} to your images") from None
        tried = f": neither {' nor '.join(map(str, places))} exists" if len(places) > 1 else ""
        raise GradcastError(f"there is nothing at {path}{tried}; set {key} to your images")

    def paths(self, dataset: Dataset) -> list[Path]:
        """The files of the dataset; where they are missing, an error says how to fetch them."""
        found = dataset.find(self.data)
        if not found:
            fetch = f"run 'gradcast data fetch {dataset.name}'" if dataset.downloads else "fetch it by hand"
            raise GradcastError(
                f"{dataset.name} is not in {self.data}: it comes from {dataset.home} and is laid out as "
                f"{dataset.layout}; {fetch}, then pass --data DIR or set GRADCAST_DATA=DIR"
            )
        return found


def load_source(name: str, shelf: Shelf, *, path: str, size: int | None, colour: Colour, data_seed: int) -> Source:
    """A labelled dataset by name, in the colour and size asked for."""
    if name == "python":
        raise GradcastError("the source 'python' is images that the caller of gradcast.run brings along")
    if name == "digits":
        return digits(data_seed).converted(colour, size)
    if name == "npz":
        return read_npz(shelf.find(path, "stream.path")).converted(colour, size)
    if name == "folder":
        files = class_folders(shelf.find(path, "stream.path"), data_seed=data_seed)
        return _decoded_source(files, shelf, colour=colour, size=size)
    dataset = DATASETS[name]
    paths = shelf.paths(dataset)
    if dataset.files is not None and (dataset.read is None or paths[0].is_dir()):
        files = dataset.files(paths[0])
        return _decoded_source(files, shelf, colour=colour, size=size)
    assert dataset.read is not None
    return cached_arrays(dataset.name, paths, partial(dataset.read, paths), shelf.cache).converted(colour, size)


def task_places(path: str | list[str], shelf: Shelf) -> list[TaskPlace]:
    """Where tasks of the user's own lie: the entries of a folder, or the places of a list."""
    paths = path if isinstance(path, list) else [path]
    return find_tasks([shelf.find(own, "stream.path") for own in paths], listed=isinstance(path, list))


def load_tasks(path: str | list[str], shelf: Shelf, *, size: int | None, colour: Colour, data_seed: int) -> OwnTasks:
    """Tasks of the user's own, each decoded or read as a dataset of its own."""
    places, sources = task_places(path, shelf), list[Source]()
    for place in places:
        with told_of(place.name):
            if place.npz:
                sources.append(read_npz(place.path).converted(colour, size))
            else:
                files = class_folders(place.path, data_seed=data_seed, fewest=1)
                sources.append(_decoded_source(files, shelf, colour=colour, size=size))
    where = "stream.path" if isinstance(path, list) else path
    return OwnTasks(tuple(place.name for place in places), tuple(sources), where)


def load_folder(path: str, shape: Shape, shelf: Shelf, *, squash: bool) -> StoredImages:
    """Every image of a folder or zip archive, as a pool."""
    files = any_images(shelf.find(path, "pool.path"))
    return cached_pool("folder", files, shape, shelf.cache, squash=squash, track=shelf.track)


def load_pool(name: str, shape: Shape, shelf: Shelf, *, squash: bool, data_seed: int) -> StoredImages:
    """A dataset's images in the shape asked for; of a labelled dataset the training images, labels ignored."""
    dataset = DATASETS.get(name)
    if dataset is not None:
        place = shelf.paths(dataset)[0]
        files = dataset.pool(place) if dataset.pool is not None else None
        if files is None and dataset.files is not None and place.is_dir():
            files = dataset.files(place).train
        if files is not None:
            return cached_pool(name, files, shape, shelf.cache, squash=squash, track=shelf.track)
    source = load_source(name, shelf, path="", size=None, colour="own", data_seed=data_seed)
    return array_pool(source, shape, shelf.cache, squash=squash, track=shelf.track)


def _decoded_source(files: LabelledFiles, shelf: Shelf, *, colour: Colour, size: int | None) -> Source:
    shape = own_shape(files, shelf.cache, colour=colour, size=size, track=shelf.track)
    return cached_files(files, shape, shelf.cache, track=shelf.track)


def untracked(rounds: Iterable[Any], what: str, total: int) -> Iterable[Any]:
    """The rounds as they are, without a progress bar."""
    return rounds
