"""Sources of labelled images by name: the catalogue, what is always there, and those of installed packages."""

from collections.abc import Mapping

from gradcast.data.catalogue import CATALOGUE, Dataset
from gradcast.specs.entry import third_parties

# Sources that are no dataset of the catalogue.
OTHERS = {
    "digits": "scikit-learn's 1,797 digits of 8x8, always there",
    "folder": "a folder of images at stream.path, one folder a class",
    "npz": "an .npz file at stream.path with x_train, y_train, x_test, y_test",
    "tasks": "tasks of your own at stream.path: a folder or an .npz file a task, in the order of their names",
    "python": "images that the caller of gradcast.run brings along",
}
OWN = ("folder", "npz", "tasks", "python")  # the user's own images: nobody else has counted them
# Every dataset, by an entry point of the group ``gradcast.sources`` also another package's.
DATASETS: Mapping[str, Dataset] = {**CATALOGUE, **third_parties("source", Dataset, CATALOGUE.keys() | OTHERS.keys())}
SOURCES: Mapping[str, str] = {
    **OTHERS,
    **{name: dataset.title for name, dataset in DATASETS.items() if dataset.labelled},
}
