"""Datasets that a table needs and the data folder lacks, said before anything is trained or written."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from gradcast.data.catalogue import Dataset
from gradcast.data.registry import DATASETS
from gradcast.errors import GradcastError
from gradcast.reproduce.reproduce import Request
from gradcast.specs.controls import pools_used
from gradcast.specs.spec import Setting


def check_data(wanted: Request, data: Path) -> list[str]:
    """Refuse a table of which no row can be trained for lack of data; warnings where some rows lack theirs.

    Rows that are trained already need none.
    """
    found = {name: dataset.find(data) for name, dataset in DATASETS.items()}
    lacking = {
        item.label: [name for name in needed(item.setting) if not found[name]]
        for item in wanted.items()
        if item.setting is not None and wanted.missing(item, wanted.seeds)
    }
    names = list(dict.fromkeys(name for own in lacking.values() for name in own))
    if not names:
        return []
    sentence = _sentence(wanted.experiment.header.id, names, data)
    if all(lacking.values()):
        raise GradcastError(sentence)
    return [f"{sentence}; until then these rows fail: {_rows(lacking)}"]


def needed(setting: Setting) -> list[str]:
    """Datasets that a row reads: its source, and the pools that it uses."""
    names = [setting.stream.source, *(pool.name for pool in pools_used(setting))]
    return list(dict.fromkeys(name for name in names if name in DATASETS))


def _sentence(table: str, names: Sequence[str], data: Path) -> str:
    verb = "is" if len(names) == 1 else "are"
    remedies = ", ".join(_remedy(DATASETS[name]) for name in names)
    listed = " and ".join(names)
    return (
        f"{table} needs {listed}, which {verb} not in {data}: {remedies}, then pass --data DIR or set GRADCAST_DATA=DIR"
    )


def _remedy(dataset: Dataset) -> str:
    if dataset.downloads:
        return f"run 'gradcast data fetch {dataset.name}'"
    return f"fetch {dataset.name} by hand from {dataset.home} (laid out as {dataset.layout})"


def _rows(lacking: Mapping[str, Sequence[str]]) -> str:
    return ", ".join(repr(label) for label, names in lacking.items() if names)
