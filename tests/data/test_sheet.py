from pathlib import Path

import numpy as np
import torch
from PIL import Image

from gradcast.data.cache import Cache
from gradcast.data.load import Shelf, untracked
from gradcast.data.sheet import COLUMNS, GAP, MARGIN, POOL_ROWS, TILE, contact_sheet
from gradcast.devices import Place
from gradcast.specs import build, build_stream
from gradcast.specs.text import load
from gradcast.streams.orders import Passes
from gradcast.streams.pool_tables import BlankSpec, PatchesSpec
from gradcast.streams.task_data import TaskData
from tests.helpers import CPU


def test_tiles_are_the_images_the_model_sees(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, Cache(tmp_path / "cache"), untracked)
    stream = build_stream.stream(load("digits", ["stream.tasks=3"]).rows[0].setting.stream, shelf)
    pool = build.pool(PatchesSpec(count=30), stream, shelf, Place(CPU, torch.float32), data_seed=0)
    contact_sheet(stream, [pool], tmp_path / "sheet.png")
    with Image.open(tmp_path / "sheet.png") as picture:
        sheet = np.asarray(picture)
    assert sheet.shape == ((3 + POOL_ROWS) * (TILE + GAP), MARGIN + COLUMNS * (TILE + GAP), 3)
    order = Passes(TaskData(stream, [0], Place(CPU, torch.float32)), COLUMNS)
    order.begin(1)
    tile = sheet[TILE + GAP : 2 * TILE + GAP, MARGIN : MARGIN + TILE, 0]
    seen = order.batch(0).x[0]
    expected = ((seen - seen.min()) / (seen.max() - seen.min()) * 255)[0, 0].round()
    assert np.array_equal(tile[4::8, 4::8], expected.numpy().astype(np.uint8))


def test_without_a_pool(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, Cache(tmp_path / "cache"), untracked)
    stream = build_stream.stream(load("digits").rows[0].setting.stream, shelf)
    contact_sheet(stream, [], tmp_path / "sheet.png")
    with Image.open(tmp_path / "sheet.png") as sheet:
        assert sheet.size[1] == 10 * (TILE + GAP)


def test_several_pools_have_their_rows_one_after_another(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, Cache(tmp_path / "cache"), untracked)
    stream = build_stream.stream(load("digits", ["stream.tasks=3"]).rows[0].setting.stream, shelf)
    specs = (PatchesSpec(count=30), BlankSpec(name="pixels", count=30))
    pools = [build.pool(spec, stream, shelf, Place(CPU, torch.float32), data_seed=0) for spec in specs]
    contact_sheet(stream, pools, tmp_path / "sheet.png")
    with Image.open(tmp_path / "sheet.png") as sheet:
        assert sheet.size[1] == (3 + 2 * POOL_ROWS) * (TILE + GAP)
