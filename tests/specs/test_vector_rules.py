import random
import re
from pathlib import Path

import numpy as np
import pytest
import torch

import gradcast
from gradcast.data.images import Source
from gradcast.errors import GradcastError
from gradcast.specs.spec import Spec
from gradcast.specs.text import load
from gradcast.specs.vector_rules import like_the_stream
from tests.data.hostile import refusal
from tests.helpers import signal_and_pool
from tests.runs.checkpoint.scene import Scene, tiny

CENTRES = np.random.default_rng(0).normal(5, 2, (4, 6))
WORDS = np.array(["ant", "bee", "cat", "dog"])


def drawn(each: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Vectors around four centres, and their classes."""
    y = np.tile(np.arange(4), each)
    return np.random.default_rng(seed).normal(CENTRES[y], 0.5), y


def source() -> Source:
    (x, y), (x_test, y_test) = drawn(20), drawn(5, 2)
    return gradcast.own_data(x, WORDS[y], x_test, WORDS[y_test])


def spec(*settings: str) -> Spec:
    common = ["stream.scenario=split", "stream.tasks=2", "stream.samples=all", "model.hidden=[16]", "seeds=[0, 1]"]
    found = load("digits", [*common, "policy.p=0.5", *settings])
    return found.model_copy(update={"rows": [row for row in found.rows if row.name == "predicted"]})


def run(out: Path, *settings: str, pool: np.ndarray | None = None) -> gradcast.RunResult:
    return gradcast.run(spec(*settings), out=out, device="cpu", progress=False, source=source(), pool=pool)


def test_vectors_from_arrays_to_a_model_that_names_classes(tmp_path: Path) -> None:
    done = run(tmp_path, "stream.normalise=standard", "stream.epochs=5", pool=drawn(10, 3)[0])
    assert done.rows[0].matrices[:, -1].mean() > 0.9
    model = gradcast.load_model(done, seed=1)
    x, y = drawn(3, 4)
    seen = model.preprocess(x)
    train = source().train.x.astype(np.float64)
    assert torch.allclose(seen, torch.from_numpy((x - train.mean(0)) / train.std(0)).float(), atol=1e-5)
    answers = model(seen)[:, model.task_columns(1)].argmax(1)[torch.from_numpy(y >= 2)]
    assert [model.classes[2 + int(place)] for place in answers] == WORDS[y[y >= 2]].tolist()
    assert torch.equal(model.preprocess(x[0]), seen[:1])
    with pytest.raises(GradcastError, match=r"trained on vectors of 6 numbers and is given \(2, 7\)"):
        model.preprocess(np.zeros((2, 7)))


def test_x_der_takes_vectors_without_augmentations(tmp_path: Path) -> None:
    own = ["learner.name=x-der", "learner.strong=[]", "learner.images=8", "signal.name=none"]
    assert run(tmp_path, *own, "stream.normalise=standard").rows[0].matrices[:, -1].mean() > 0.6


@pytest.mark.parametrize("name", ["fixmatch", "mutexmatch", "icl"])
def test_signals_that_match_views_take_vectors_without_augmentations(tmp_path: Path, name: str) -> None:
    own = [f"signal.name={name}", "signal.weak=[]", "signal.strong=[]", "policy.batch=4"]
    assert run(tmp_path, *own, "stream.normalise=standard", pool=drawn(10, 3)[0]).rows[0].matrices.shape == (2, 3, 2)


@pytest.mark.parametrize("name", ["vat", "tnar"])
def test_adversarial_signals_take_vectors(tmp_path: Path, name: str) -> None:
    own = [*signal_and_pool(name), "policy.batch=4", "stream.normalise=standard"]
    assert run(tmp_path, *own, pool=drawn(10, 3)[0]).rows[0].matrices.shape == (2, 3, 2)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_without_normalisation_the_network_sees_the_numbers(tmp_path: Path, dtype: str) -> None:
    done = run(tmp_path, f"dtype={dtype}", "pool.name=held-out", "stream.samples=20")
    model = gradcast.load_model(done)
    assert torch.equal(model.preprocess(CENTRES), torch.from_numpy(CENTRES).float())


def test_files_of_vectors_as_stream_and_pool(tmp_path: Path) -> None:
    (x, y), (x_test, y_test) = drawn(20), drawn(5, 2)
    np.savez(tmp_path / "stream.npz", x_train=x, y_train=WORDS[y], x_test=x_test, y_test=WORDS[y_test])
    np.savez(tmp_path / "pool.npz", x=drawn(10, 3)[0])
    own = ["stream.source=npz", "stream.path=stream.npz", "pool.name=npz", "pool.path=pool.npz"]
    done = gradcast.run(spec(*own), out=tmp_path, data=tmp_path, device="cpu", progress=False)
    same = run(tmp_path / "same", pool=drawn(10, 3)[0])
    assert np.array_equal(done.rows[0].matrices, same.rows[0].matrices)
    np.savez(tmp_path / "pool.npz", images=x)
    with pytest.raises(GradcastError, match=r"pool.npz has no array 'x'; it must hold x"):
        gradcast.run(spec(*own), out=tmp_path, data=tmp_path, device="cpu", progress=False)


def test_tasks_of_vectors_resume_to_the_same_bytes(tmp_path: Path) -> None:
    (x, y), (x_test, y_test) = drawn(8), drawn(2, 2)
    (tmp_path / "mine").mkdir()
    for name, labels in (("a", (0, 1)), ("b", (1, 2, 3)), ("c", (0,))):
        train, test = np.isin(y, labels), np.isin(y_test, labels)
        parts = {"x_train": x[train], "y_train": WORDS[y[train]], "x_test": x_test[test], "y_test": WORDS[y_test[test]]}
        np.savez(tmp_path / "mine" / f"{name}.npz", **parts)
    np.savez(tmp_path / "pool.npz", x=x_test)
    pool = ["pool.name=npz", "pool.path=pool.npz", "pool.augment=[]", "stream.augment=[]"]
    own = [
        "stream.source=tasks",
        "stream.path=mine",
        "stream.tasks=3",
        "stream.samples=all",
        "stream.normalise=standard",
    ]
    scene, settings = Scene(tmp_path), (*own, *pool, "signal.name=predicted")
    whole = scene.train(tiny(*settings), "whole")
    assert whole is not None
    assert scene.with_cuts(tiny(*settings), "cut", random.Random(0)) == whole


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["stream.scenario=rotated"], "feature vectors cannot be turned; set stream.scenario to split or permuted"),
        (["stream.augment=['flip']"], "stream.augment = ['flip'] changes images, and these are feature vectors"),
        (["learner.name=x-der"], "feature vectors; set learner.strong=[]"),
        (["learner.name=er", "learner.augment=['flip']"], "learner.augment = ['flip'] changes images, and these are"),
        (["stream.size=8"], "feature vectors, which have no size and no colour; leave stream.size"),
        (["stream.colour=grey"], "feature vectors, which have no size and no colour"),
        (["stream.normalise=imagenet"], "stream.normalise = 'imagenet' is for colour images, and these are feature"),
        (["pool.name=patches"], "the pool 'patches' has images, and the stream feature vectors; set pool.name to"),
        (["pool.name=held-out", "pool.augment=['flip']"], "pool.augment is for images, and the stream has feature"),
        (["pool.name=held-out", "pool.scale=reference"], "pool.scale is for images, and the stream has feature"),
        (
            ["signal.name=rotation"],
            "the signal 'rotation' changes images, and these are feature vectors; choose another",
        ),
        (["signal.name=contrastive"], "choose another signal, or set its augment to []"),
        (["signal.name=fixmatch"], "choose another signal, or set its weak and strong to []"),
        (["model.name=slim-resnet18"], "the network 'slim-resnet18' takes images, and these are feature vectors; set"),
        (["model.name=efficientnet-b0"], "the network 'efficientnet-b0' takes images"),
        (["learner.name=pnn", "model.name=alexnet-like"], "the learner 'pnn' takes images, and these are feature"),
    ],
)
def test_what_is_for_images_is_refused_in_a_sentence(tmp_path: Path, settings: list[str], message: str) -> None:
    pool = [] if any(own.startswith("pool.") for own in settings) else ["pool.name=held-out"]
    with pytest.raises(GradcastError, match=re.escape(message)):
        run(tmp_path, "stream.samples=20", *pool, *settings)
    assert list(tmp_path.iterdir()) == []


def test_a_pool_is_like_its_stream() -> None:
    rows, images = np.zeros((3, 6), dtype=np.float32), np.zeros((3, 1, 4, 4), dtype=np.uint8)
    assert like_the_stream(rows, (6,), squash=False) is rows
    assert like_the_stream(images, (3, 2, 2), squash=False).shape == (3, 3, 2, 2)
    assert "the pool holds feature vectors and the stream images" in refusal(
        like_the_stream, rows, (1, 4, 4), squash=False
    )
    assert "the pool holds images and the stream feature vectors" in refusal(
        like_the_stream, images, (6,), squash=False
    )
    assert "vectors of 6 numbers and the stream of 7" in refusal(like_the_stream, rows, (7,), squash=False)
