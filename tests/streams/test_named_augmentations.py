import json
import re
from pathlib import Path

import pytest
import torch
from torch import Tensor

import gradcast
from gradcast.errors import GradcastError
from gradcast.specs import text as specfile
from gradcast.streams.augment import AUGMENTATIONS
from gradcast.streams.named_augmentations import named, own_code
from tests.data.hostile import refusal
from tests.trained_runs import small

HERE = __name__
SHAPE = (1, 8, 8)


class Darker:
    """Every image a little darker, by its own random number."""

    numbers = 1

    def __call__(self, x: Tensor, u: Tensor) -> Tensor:
        return x * (1 - 0.5 * u.view(-1, 1, 1, 1))


class Wanting(Darker):
    def __init__(self, strength: float) -> None:
        self.strength = strength


class Numberless:
    def __call__(self, x: Tensor, u: Tensor) -> Tensor:
        return x


class Shrinking(Darker):
    def __call__(self, x: Tensor, u: Tensor) -> Tensor:
        return x[..., 1:]


class Bright(Darker):
    def __call__(self, x: Tensor, u: Tensor) -> Tensor:
        return x + 2


class Drawing(Darker):
    def __call__(self, x: Tensor, u: Tensor) -> Tensor:
        return x * torch.rand(1)


class Centring(Darker):
    def __call__(self, x: Tensor, u: Tensor) -> Tensor:
        return (x + x.mean(0)) / 2


class Failing(Darker):
    def __call__(self, x: Tensor, u: Tensor) -> Tensor:
        raise ZeroDivisionError("no")


def test_names_and_import_paths_side_by_side() -> None:
    flip, darker = named(["flip", f"{HERE}:Darker"], SHAPE)
    assert flip is AUGMENTATIONS["flip"]
    assert darker.numbers == 1
    assert darker.apply(torch.ones(1, 1, 2, 2), torch.tensor([[0.5]])).unique().tolist() == [0.75]
    assert named([f"{HERE}:Darker"]) == (darker,)  # equal ones share their images


def test_code_of_ones_own_has_a_digest_and_the_packages_has_none() -> None:
    assert own_code(["flip", "crop"]) == {}
    assert list(own_code(["flip", f"{HERE}:Darker"])) == [f"augmentation {HERE}:Darker"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Missing", "cannot be imported .AttributeError"),
        ("Wanting", "cannot be made without arguments .TypeError: .*strength"),
        ("Numberless", "is no augmentation; it needs a whole number 'numbers'"),
        ("Shrinking", r"makes \(3, 1, 8, 7\) of images \(3, 1, 8, 8\); it must return floats of the same shape"),
        ("Bright", "gives values outside 0 to 1; clamp them"),
        ("Drawing", "gives another image each time; take random numbers from its argument u"),
        ("Centring", "something else of an image when others are beside it"),
        ("Failing", r"cannot take images of 1 x 8 x 8 \(ZeroDivisionError: no\)"),
    ],
)
def test_what_is_no_augmentation_is_refused_in_a_sentence(name: str, message: str) -> None:
    assert re.search(message, refusal(named, [f"{HERE}:{name}"], SHAPE))


def test_an_unknown_name_is_told_the_known_ones() -> None:
    with pytest.raises(
        GradcastError, match=r"stream.augment = 'flop' is not valid; it must be 'crop', 'shift', 'flip'"
    ):
        small('stream.augment=["flop"]')


def test_streams_pools_signals_and_head_starts_take_them(tmp_path: Path) -> None:
    own = f'["{HERE}:Darker"]'
    spec = small(
        f"stream.augment={own}",
        f"pool.augment={own}",
        "seeds=[0]",
        "stream.tasks=2",
        "signal.name=contrastive",
        f"signal.augment={own}",
        "head_start.steps=2",
        "head_start.batch=8",
        f'head_start.signal=[{{name = "vicreg", augment = {own}}}]',
    )
    assert specfile.parse(specfile.dump(spec)) == spec
    rows = [row for row in spec.rows if row.name == "predicted"]
    done = gradcast.run(spec.model_copy(update={"rows": rows}), out=tmp_path, device="cpu", progress=False)
    content = json.loads((done.directory / "predicted" / "stream.json").read_text())
    assert f"augmentation {HERE}:Darker" in content


@pytest.mark.parametrize(
    "setting",
    [
        "stream.augment={}",
        "pool.augment={}",
        "signal.augment={}",
        "head_start.signal=[{{name='vicreg', augment={}}}]",
        "signal=[{{name='fixmatch', weak={}}}]",
        "signal=[{{name='fixmatch', strong={}}}]",
    ],
)
def test_a_bad_one_is_refused_wherever_it_is_named_before_anything_is_trained(tmp_path: Path, setting: str) -> None:
    spec = small(
        "signal.name=contrastive", "head_start.steps=2", "head_start.batch=8", setting.format(f'["{HERE}:Bright"]')
    )
    with pytest.raises(GradcastError, match="Bright gives values outside 0 to 1"):
        gradcast.run(spec, out=tmp_path, device="cpu", progress=False)
    assert list(tmp_path.iterdir()) == []
