from pathlib import Path

import numpy as np
import torch
from PIL import Image

from gradcast.data.cache import Cache
from gradcast.data.load import Shelf, untracked
from gradcast.data.sheet import COLUMNS, GAP, MARGIN, POOL_ROWS, TILE, contact_sheet
from gradcast.devices import Place
from gradcast.specs import build
from gradcast.specs.text import load
from gradcast.streams.pool_tables import PatchesSpec
from tests.helpers import CPU


def test_tiles_are_the_images_the_model_sees(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, Cache(tmp_path / "cache"), untracked)
    stream = build.stream(load("digits", ["stream.tasks=3"]).rows[0].setting.stream, shelf)
    pool = build.pool(PatchesSpec(count=30), stream, shelf, Place(CPU, torch.float32), data_seed=0)
    contact_sheet(stream, pool, tmp_path / "sheet.png")
    with Image.open(tmp_path / "sheet.png") as picture:
        sheet = np.asarray(picture)
    assert sheet.shape == ((3 + POOL_ROWS) * (TILE + GAP), MARGIN + COLUMNS * (TILE + GAP), 3)
    batch = next(stream.batches(1, [0], batch=COLUMNS, epochs=1, device=CPU, dtype=torch.float32))
    tile = sheet[TILE + GAP : 2 * TILE + GAP, MARGIN : MARGIN + TILE, 0]
    seen = batch.x[0]
    expected = ((seen - seen.min()) / (seen.max() - seen.min()) * 255)[0, 0].round()
    assert np.array_equal(tile[4::8, 4::8], expected.numpy().astype(np.uint8))


def test_without_a_pool(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, Cache(tmp_path / "cache"), untracked)
    stream = build.stream(load("digits").rows[0].setting.stream, shelf)
    contact_sheet(stream, None, tmp_path / "sheet.png")
    with Image.open(tmp_path / "sheet.png") as sheet:
        assert sheet.size[1] == 10 * (TILE + GAP)
