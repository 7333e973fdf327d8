"""What a command lacks of its specifications, trained by Ray before the command puts its runs together."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from gradcast import devices
from gradcast.cluster.cell_task import CellTask, Cluster, Conditions, cell_tasks
from gradcast.cluster.on_ray import UNFINISHED, TaskDisplay, fill_store, session
from gradcast.cluster.worker import versions
from gradcast.data.images import Source
from gradcast.data.load import default_data
from gradcast.data.own_tasks import OwnTasks
from gradcast.errors import GradcastError
from gradcast.runs.cell_key import cell_key
from gradcast.runs.checkpoint.keeper import Safety
from gradcast.runs.prepared import Display, PreparedRun
from gradcast.runs.run import ANY_PLACE, prepare
from gradcast.runs.seed_store import STORE, SeedStore
from gradcast.specs.spec import Row, Spec
from gradcast.training.grouping import SHARE, replica_bytes

VARIABLES = ("GRADCAST_CACHE", "CUBLAS_WORKSPACE_CONFIG")  # that workers must have as this process has them


def train_ahead(
    specs: Sequence[Spec],
    cluster: Cluster,
    *,
    out: Path,
    data: Path | str | None,
    device: str,
    safety: Safety | None = None,
    source: Source | OwnTasks | None = None,
    pool: Any = None,  # noqa: ANN401 -- images of any accepted form
    display: Display | None = None,
) -> dict[str, str]:
    """Train by Ray what the store below ``out`` lacks; a sentence for each cell that failed, by its name.

    Specifications that cannot be prepared are left out: whoever puts their runs together says why.
    """
    store, safety = SeedStore(out / STORE), safety or Safety()
    folder = (default_data() if data is None else Path(data)).resolve()
    found: dict[str, tuple[CellTask, PreparedRun]] = {}
    for spec in specs:
        try:
            ready, shared, content = prepare(spec, ANY_PLACE, data=folder, source=source, pool=pool, display=display)
        except GradcastError:
            continue
        for row, digests in zip(ready.rows, content, strict=True):
            key = cell_key(row.setting, ready.dtype, digests, skips=safety.on_nan == "skip")
            known = set() if safety.start == "fresh" else store.seeds(key)
            missing = [seed for seed in ready.seeds if seed not in known]
            for task in cell_tasks(ready, row, key, missing, cluster.at_once):
                found[task.name] = task, shared
    if not found:
        return {}
    conditions = Conditions(
        Path.cwd(),
        folder,
        "cuda" if device.startswith("cuda") else device,  # Ray shows a worker its own GPU alone
        cluster.threads or 1,
        replace(safety, start="auto"),
        versions(),
        {name: os.environ[name] for name in VARIABLES if name in os.environ},
        source,
        pool,
    )
    with session(cluster.on) as ray:
        tasks = [replace(task, gpus=_gpus(ray, task, shared, device)) for task, shared in found.values()]
        shown = display if isinstance(display, TaskDisplay) else None
        problems = fill_store(ray, tasks, conditions, store, out / UNFINISHED, shown)
    return {task.key.name: problems[task.name] for task in tasks if task.name in problems}


def _gpus(ray: Any, task: CellTask, shared: PreparedRun, device: str) -> float:  # noqa: ANN401 -- the module
    """The share of a GPU that a cell needs, by the estimate of its memory; 0 where none is used."""
    if device == "cpu" or not ray.cluster_resources().get("GPU"):
        return 0.0
    if not torch.cuda.is_available():  # how large the cluster's are is not known here
        return 1.0
    row: Row = task.spec.rows[0]
    place = devices.choose_place("cuda", task.spec.dtype)
    need = len(task.spec.seeds) * replica_bytes(row.setting, shared.stream(row.setting), place)
    whole = SHARE * torch.cuda.get_device_properties(0).total_memory
    return min(1.0, max(0.01, round(need / whole, 2)))
