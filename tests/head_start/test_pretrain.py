import fcntl
import inspect
import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

import gradcast
from gradcast.core import Metrics
from gradcast.data.cache import Cache
from gradcast.data.load import Shelf, untracked
from gradcast.devices import Place
from gradcast.errors import GradcastError, Stopped
from gradcast.head_start import pretrain as module_of_the_function
from gradcast.head_start.course import features
from gradcast.head_start.pretrain import pretrain
from gradcast.head_start.pretrain_step import PretrainStep
from gradcast.networks import MLP, SlimResNet18
from gradcast.runs.checkpoint.keeper import Safety
from gradcast.runs.prepared import PreparedRun
from tests.head_start.small_pretraining import NARROW, images, small
from tests.helpers import CPU


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADCAST_CACHE", str(tmp_path / "cache"))


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != "cache")


def test_the_file_holds_all_layers_but_the_output_layer(tmp_path: Path) -> None:
    made = small(tmp_path / "w.safetensors")
    assert files(tmp_path) == ["w.safetensors"]
    found = load_file(made.path)
    whole = made.module.state_dict()
    assert found.keys() == {name for name in whole if not name.startswith("linear.")}
    for name, tensor in found.items():
        assert torch.equal(tensor, made.weights[name])
        assert torch.equal(tensor, whole[name])
    assert [done for done, _ in made.curve] == [1, 2, 3, 4]
    assert not made.module.training
    assert type(made.module) is SlimResNet18


def test_weights_have_moved_and_the_output_layer_is_as_it_began(tmp_path: Path) -> None:
    short, longer = (small(tmp_path / f"{steps}.safetensors", steps=steps) for steps in (1, 4))
    assert torch.equal(short.module.linear.weight, longer.module.linear.weight)
    assert not torch.equal(short.module.conv1.weight, longer.module.conv1.weight)
    assert int(longer.weights["bn1.num_batches_tracked"]) == 4


def test_every_argument_is_documented() -> None:
    text = pretrain.__doc__ or ""
    assert [name for name in inspect.signature(pretrain).parameters if f"        {name}: " not in text] == []
    assert gradcast.pretrain is pretrain


def test_a_run_starts_with_these_features_and_every_seed_with_its_own_output_layer(tmp_path: Path) -> None:
    made = small(tmp_path / "w.safetensors")
    settings = ["model.name=slim-resnet18", NARROW, f"model.weights={made.path}", "stream.colour=rgb", "stream.size=8"]
    spec = gradcast.load("digits", [*settings, "stream.tasks=2"])
    shelf = Shelf(tmp_path, Cache(tmp_path / "cache"), untracked)
    run = PreparedRun(Place(CPU, torch.float32), shelf)
    model = run.loop(spec.rows[0].setting, [0, 1]).trainer.model
    own = features(model)
    assert own.keys() == made.weights.keys()
    for name, rows in own.items():
        assert all(torch.equal(row, made.weights[name]) for row in rows)
    first, second = model.parameters(model.theta)["linear.weight"]
    assert not torch.equal(first, second)
    plain = run.loop(gradcast.load("digits", [*settings, "model.weights="]).rows[0].setting, [0, 1]).trainer.model
    assert torch.equal(plain.parameters(plain.theta)["linear.weight"][1], second)  # as without the file


class Cut:
    """Ends a head start by a signal's note after so many steps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
        self.left = after
        advance = PretrainStep.advance

        def counted(step: PretrainStep, *given: object) -> Metrics:
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), 2)
            return advance(step, *given)  # type: ignore[arg-type]

        monkeypatch.setattr(PretrainStep, "advance", counted)


def test_it_goes_on_after_an_interruption_to_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = small(tmp_path / "whole.safetensors", steps=7)
    Cache(tmp_path / "cache").clear()  # or it would be found there
    cut = Cut(monkeypatch, 4)
    with pytest.raises(Stopped, match="stopped before step 4, checkpoint written; the same command goes on"):
        small(tmp_path / "cut.safetensors", steps=7)
    assert files(tmp_path) == [".cut.safetensors.unfinished", "whole.safetensors"]
    cut.left = 100
    again = small(tmp_path / "cut.safetensors", steps=7)
    assert cut.left == 100 - 3
    assert files(tmp_path) == ["cut.safetensors", "whole.safetensors"]
    assert again.path.read_bytes() == whole.path.read_bytes()
    assert again.curve == whole.curve


def test_fresh_starts_an_unfinished_one_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cut = Cut(monkeypatch, 2)
    with pytest.raises(Stopped):
        small(tmp_path / "w.safetensors")
    cut.left = 100
    small(tmp_path / "w.safetensors", safety=Safety(start="fresh"))
    assert cut.left == 100 - 4


def test_resume_needs_an_unfinished_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(GradcastError, match=r"there is no unfinished head start beside .* without --resume"):
        small(tmp_path / "w.safetensors", safety=Safety(start="resume"))
    cut = Cut(monkeypatch, 2)
    with pytest.raises(Stopped):
        small(tmp_path / "w.safetensors")
    cut.left = 100
    small(tmp_path / "w.safetensors", safety=Safety(start="resume"))
    assert cut.left == 100 - 2


@pytest.mark.parametrize("kept", ["file", "cache"])
def test_what_is_finished_is_not_trained_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: str) -> None:
    first = small(tmp_path / "w.safetensors")
    content = first.path.read_bytes()
    if kept == "file":
        Cache(tmp_path / "cache").clear()
    else:
        first.path.unlink()
    monkeypatch.setattr(PretrainStep, "advance", None)
    again = small(tmp_path / "w.safetensors")
    assert again.path.read_bytes() == content
    assert again.curve == first.curve


def test_another_file_is_not_overwritten(tmp_path: Path) -> None:
    small(tmp_path / "w.safetensors")
    before = (tmp_path / "w.safetensors").read_bytes()
    with pytest.raises(GradcastError, match=r"holds something else than this head start; choose another --out"):
        small(tmp_path / "w.safetensors", steps=3)
    assert (tmp_path / "w.safetensors").read_bytes() == before
    assert files(tmp_path) == ["w.safetensors"]


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("w.pt", r"does not end in \.safetensors; call it w\.safetensors"),
        ("nowhere/w.safetensors", r"cannot be written \(No such file or directory\); make its folder"),
        ("file/w.safetensors", r"cannot be written \(Not a directory\)"),
        ("folder.safetensors", "is a folder; name a file in it"),
    ],
)
def test_places_that_cannot_be_written_are_named_before_anything_is_read(
    tmp_path: Path, out: str, message: str
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.safetensors").mkdir()
    with pytest.raises(GradcastError, match=message):
        small(tmp_path / out, pool="nowhere")
    assert files(tmp_path) == ["file", "folder.safetensors"]


def test_two_processes_do_not_make_one_file(tmp_path: Path) -> None:
    folder = tmp_path / ".w.safetensors.unfinished"
    folder.mkdir()
    handle = os.open(folder, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        with pytest.raises(GradcastError, match="another process is making"):
            small(tmp_path / "w.safetensors")
    finally:
        os.close(handle)


def test_a_loss_that_is_not_finite_ends_it_and_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(GradcastError, match=r"lower head_start\.lr"):
        small(tmp_path / "w.safetensors", settings=[NARROW, "head_start.lr=1e30"], steps=8)
    assert files(tmp_path) == []


def test_lack_of_memory_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def too_large(*given: object, **more: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(module_of_the_function, "head_starts", too_large)
    with pytest.raises(GradcastError, match=r"for batches of 6 images \(CUDA out of memory\); lower --batch or --size"):
        small(tmp_path / "w.safetensors")


def test_seeds_differ_and_precision_is_kept(tmp_path: Path) -> None:
    made = [small(tmp_path / f"{seed}.safetensors", seed=seed, dtype="float64") for seed in (0, 1)]
    first, second = (own.weights["conv1.weight"] for own in made)
    assert first.dtype == torch.float64 == next(made[0].module.parameters()).dtype
    assert not torch.equal(first, second)


@pytest.mark.parametrize("signal", ["rotation", "vicreg"])
def test_other_signals(tmp_path: Path, signal: str) -> None:
    made = small(tmp_path / "w.safetensors", settings=[NARROW, f"head_start.signal={signal}"])
    assert len(made.curve) == 4


def trains(module: nn.Module, before: dict[str, Tensor]) -> bool:
    return any(not torch.allclose(tensor, before[name]) for name, tensor in module.state_dict().items())


def test_a_module_is_copied_and_its_weights_are_the_beginning(tmp_path: Path) -> None:
    given = MLP([192, 5, 3])
    before = {name: tensor.clone() for name, tensor in given.state_dict().items()}
    settings = ["head_start.lr=1e-30"]
    made = small(tmp_path / "w.safetensors", model=given, settings=settings)
    assert not trains(given, before)
    assert not trains(made.module, before)  # the rate is next to nothing
    assert trains(small(tmp_path / "v.safetensors", model=given, settings=[]).module, before)


def test_a_factory_is_called_with_what_it_asks_for(tmp_path: Path) -> None:
    def wide(shape: tuple[int, int, int]) -> nn.Module:
        return MLP([shape[0] * shape[1] * shape[2], 4, 2])

    made = small(tmp_path / "w.safetensors", model=wide, settings=[], pool=images(grey=True), colour="grey")
    assert made.weights["layers.0.weight"].shape == (4, 64)
