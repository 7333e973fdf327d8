"""A contact sheet: labelled tasks and the pool, as the model will see them."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw

from gradcast.data.images import is_vector
from gradcast.devices import Place
from gradcast.errors import GradcastError
from gradcast.randomness import torch_generator
from gradcast.streams.orders import Passes
from gradcast.streams.own_pool import OwnImages
from gradcast.streams.pool import Pool
from gradcast.streams.stream import Stream
from gradcast.streams.task_data import TaskData

COLUMNS, ROWS, POOL_ROWS = 12, 10, 4
TILE, GAP, MARGIN = 64, 2, 96


def contact_sheet(stream: Stream, pools: Sequence[Pool | OwnImages], path: Path) -> None:
    """One row of samples a task (the first ten tasks), then rows of the pool; values are stretched to black and white.

    The range that the network sees stands beside each row: labelled and unlabelled images may well differ in it.
    """
    if is_vector(stream.shape):
        raise GradcastError("feature vectors cannot be drawn; a contact sheet shows images alone")
    order = Passes(TaskData(stream, [0], Place(torch.device("cpu"), torch.float32)), COLUMNS)
    rows: list[tuple[str, torch.Tensor]] = []
    for task in range(min(len(stream.tasks), ROWS)):
        order.begin(task)
        rows.append((f"task {task + 1}", order.batch(0).x[0]))
    for pool in pools:
        generator = torch_generator(0, "contact sheet")
        for row in range(POOL_ROWS):
            index = (
                np.arange(row * COLUMNS, (row + 1) * COLUMNS) * max(len(pool) // (POOL_ROWS * COLUMNS), 1) % len(pool)
            )
            images, _ = pool.images(0, [0], index[None], [generator])
            rows.append(("pool", images[0].cpu()))
    _draw(rows, path)


def _draw(rows: list[tuple[str, torch.Tensor]], path: Path) -> None:
    sheet = Image.new("RGB", (MARGIN + COLUMNS * (TILE + GAP), len(rows) * (TILE + GAP)), "white")
    pen = ImageDraw.Draw(sheet)
    for line, (label, images) in enumerate(rows):
        top = line * (TILE + GAP)
        low, high = float(images.min()), float(images.max())
        pen.text((4, top + 16), f"{label}\n{low:.2f} to {high:.2f}", fill="black")
        stretched = (images - low) / max(high - low, 1e-6) * 255
        for column, image in enumerate(stretched.round().byte().numpy()):
            plane = image[0] if len(image) == 1 else image.transpose(1, 2, 0)
            tile = Image.fromarray(plane).resize((TILE, TILE), Image.Resampling.NEAREST)
            sheet.paste(tile.convert("RGB"), (MARGIN + column * (TILE + GAP), top))
    try:
        sheet.save(path)
    except ValueError as error:
        raise GradcastError(f"{path} cannot be written ({error}); call it something.png") from None
