import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

import gradcast
from gradcast.data.digits import digits
from gradcast.data.images import Source
from gradcast.data.own_images import own_data
from gradcast.errors import GradcastError
from gradcast.networks import MLP
from gradcast.replicas.heads import Heads
from gradcast.results.load_model import _column_names, load_model
from gradcast.results.report import verdicts
from gradcast.results.result import RowResult
from gradcast.results.run_result import RunResult
from gradcast.results.trained_model import TrainedModel
from gradcast.runs.directory import RunDirectory
from gradcast.runs.manifest import NAME
from gradcast.runs.run import run
from gradcast.specs.text import load
from tests.trained_runs import class_incremental, few_labels, finished, small

CONVOLUTIONAL = ("model.latent=16", "model.widths=[16, 16, 16]", "model.channels=[4, 6, 8]", "schedule.epochs=1")


def accuracies(model: TrainedModel, source: Source, tasks: int, order: np.ndarray | None = None) -> list[float]:
    """Share of the test images of every task that the model classifies rightly, the task being known."""
    found = []
    for task in range(tasks):
        x, y = source.test.x, source.test.y
        if order is not None:
            classes = order[task].tolist()
            known = np.isin(y, classes)
            x, y = x[known], np.array([classes.index(label) for label in y[known]])
        logits = model(model.preprocess(x, task))[:, model.task_columns(task)]
        found.append(float((logits.argmax(1).numpy() == y).mean()))
    return found


def trained(out: Path, *settings: str, preset: str = "digits") -> tuple[RunDirectory, RowResult]:
    """The first row of a run."""
    spec = load(preset, list(settings))
    directory, (row, *_) = run(spec.model_copy(update={"rows": spec.rows[:1]}), out=out, device="cpu")
    return directory, row


def own_copy(directory: RunDirectory, out: Path) -> Path:
    """A run that a test may damage."""
    without = shutil.ignore_patterns(NAME)  # a manifest finds damage before anybody reads it
    return Path(shutil.copytree(directory.path, out / directory.path.name, ignore=without))


def test_frozen_stages_are_part_of_the_model(tmp_path: Path) -> None:
    ahead = ("head_start.steps=2", "head_start.batch=8", "head_start.shared=true", "pool.name=patches", "pool.count=20")
    network = ("model.name=slim-resnet18", "model.width=2", "model.train=1", "signal.name=none", "seeds=[0,1]")
    stream = ("stream.scenario=split", "stream.tasks=2", "stream.classes_per_task=2", "stream.samples=40")
    directory, row = trained(tmp_path, *ahead, *network, *stream)
    order = np.arange(4).reshape(2, 2)
    for place, seed in enumerate(row.seeds):
        model = load_model(directory.path, seed=seed)
        assert accuracies(model, digits(0), 2, order) == pytest.approx(row.matrices[place][-1].tolist(), abs=1e-9)


def test_it_classifies_as_the_run_did() -> None:
    directory, rows = finished()
    for place, seed in enumerate(rows[1].seeds):
        model = gradcast.load_model(directory.path, row="predicted", seed=seed)
        assert accuracies(model, digits(0), 3) == pytest.approx(rows[1].matrices[place, -1].tolist())
    assert isinstance(model, torch.nn.Module)
    assert not model.training
    assert model.classes == [str(digit) for digit in range(10)]
    assert model.task_columns(2) == slice(0, 10)


def test_a_learner_that_does_not_answer_by_logits_is_named(tmp_path: Path) -> None:
    directory, _ = trained(tmp_path, "learner.name=icarl", "stream.tasks=2", "stream.samples=40", "seeds=[0]")
    with pytest.warns(UserWarning, match="'icarl', which does not answer by the largest logit"):
        assert len(load_model(directory.path).classes) == 10


def test_a_result_a_path_and_a_row_name_the_same_model() -> None:
    directory, rows = finished()
    x = torch.rand(2, 1, 8, 8)
    found = [
        load_model(RunResult(directory.path, rows), "base"),
        load_model(str(directory.path), row="base", seed=0),
        load_model(directory.path / "base"),
    ]
    assert all(torch.equal(model(x), found[0](x)) for model in found)


def test_a_split_stream_has_the_names_in_output_order(tmp_path: Path) -> None:
    labels = np.array(["cat", "dog", "eel", "fox"])
    x, y = np.random.default_rng(0).integers(0, 256, (80, 9, 7, 3), dtype=np.uint8), np.arange(80) % 4
    source = Source("own", own_data(x, y, x, y).train, own_data(x, y, x, y).test, tuple(labels.tolist()))
    settings = ["stream.scenario=split", "stream.tasks=2", "stream.class_order=[3, 0, 2, 1]", "stream.samples=all"]
    settings += ["stream.size=8", "stream.normalise=standard", "learner.memory=8", "seeds=[4]"]
    spec = load("digits", [*settings, "model.hidden=[5]"])
    directory, (row, *_) = run(
        spec.model_copy(update={"rows": spec.rows[:1]}), out=tmp_path, device="cpu", source=source
    )
    model = load_model(directory.path)
    assert model.classes == ["fox", "cat", "eel", "dog"]
    assert [model.classes[model.task_columns(task)] for task in range(2)] == [["fox", "cat"], ["eel", "dog"]]
    order = np.array([[3, 0], [2, 1]])
    assert accuracies(model, source, 2, order) == pytest.approx(row.matrices[0, -1].tolist())
    assert model(model.preprocess(Image.new("RGB", (40, 30), "red"))).shape == (1, 4)
    with pytest.raises(GradcastError, match="there is no task 2; tasks are 0 to 1"):
        model.task_columns(2)


@pytest.mark.parametrize(("heads", "classes"), [("all", ["0", "1", "2", "3"]), ("masked", ["0", "1", "2", "3"])])
def test_every_column_has_the_name_of_its_class(tmp_path: Path, heads: str, classes: list[str]) -> None:
    settings = ["stream.scenario=split", "stream.tasks=2", "stream.classes_per_task=2", f"model.heads={heads}"]
    directory, _ = trained(tmp_path, *settings, "stream.samples=20", "learner.memory=8", "seeds=[0]")
    assert load_model(directory.path).classes == classes


def test_of_a_mean_teacher_it_is_the_teacher_and_averages_are_kept_as_evaluated(tmp_path: Path) -> None:
    directory, rows = few_labels()
    (row,) = (row for row in rows if row.name == "mean-teacher")
    model = load_model(directory.path, "mean-teacher", 1)
    assert accuracies(model, digits(0), 1) == pytest.approx(row.matrices[1, -1].tolist())
    averaged, first = trained(tmp_path, "evaluation.average=5", "stream.tasks=2", "stream.samples=60", "seeds=[0]")
    assert accuracies(load_model(averaged.path), digits(0), 2) == pytest.approx(first.matrices[0, -1].tolist())


def test_columns_that_earlier_runs_shared_among_classes_have_the_names_of_all() -> None:
    assert _column_names(Heads.even(2, 2), [["0", "1"], ["2", "3"]]) == ["0 / 2", "1 / 3"]


@pytest.mark.parametrize("learner", ["acl", "hat", "pnn", "independent", "finetune"])
def test_learners_with_weights_of_each_task_give_all_columns(tmp_path: Path, learner: str) -> None:
    own = ["learner.updates=1"] if learner == "acl" else []
    directory, row = trained(
        tmp_path, *CONVOLUTIONAL, f"learner.name={learner}", *own, "seeds=[1, 3]", preset="acl-digits"
    )
    source = digits(0).converted("own", 12)
    for place, seed in enumerate([1, 3]):
        model, order = load_model(directory.path, seed=seed), np.random.RandomState(seed).permutation(10)
        assert model.classes == [str(label) for label in order]
        found = accuracies(model, source, 2, order.reshape(2, 5))
        assert found == pytest.approx(row.matrices[place, -1].tolist(), abs=0.005)
    if learner in ("acl", "hat"):
        assert row.unknown is None
        reason = "every task has weights of its own"
        assert verdicts([row])[-1] == f"Task unknown: not applicable to {row.label}: {reason}"
        with pytest.raises(GradcastError, match="its answers need the task: give task=0 to 1"):
            model.predict(source.test.x[:2])
        return
    assert row.unknown is not None
    x, y = source.test.x, source.test.y
    right = np.array(model.predict(x)) == y.astype(str)
    by_task = [right[np.isin(y, order.reshape(2, 5)[task])].mean() for task in range(2)]
    assert by_task == pytest.approx(row.unknown.matrices[1, -1].tolist(), abs=0.005)


def test_the_weights_load_into_a_plain_network() -> None:
    directory, _ = finished()
    file = directory.seed("base", 0) / "weights.safetensors"
    state = {name.removeprefix("model."): tensor for name, tensor in load_file(file).items()}
    plain = MLP([64, 12, 10])
    plain.load_state_dict(state)
    model, x = load_model(directory.path, "base"), torch.rand(3, 1, 8, 8)
    assert torch.equal(plain(x), model(x))
    assert torch.equal(model.network(x), model(x))


@pytest.mark.parametrize(
    ("row", "seed", "sentence"),
    [
        (None, None, "has several rows; choose one: row='base' or row='predicted' or row='random'"),
        ("predict", 0, "there is no row 'predict' in .*; did you mean 'predicted'"),
        ("base", 9, "there is no seed 9 in .*; its seeds: 0, 1, 2"),
    ],
)
def test_a_wrong_row_or_seed_is_named_with_the_choices(row: str | None, seed: int | None, sentence: str) -> None:
    with pytest.raises(GradcastError, match=sentence):
        load_model(finished()[0].path, row, seed)


def test_what_is_no_finished_run_is_explained(tmp_path: Path) -> None:
    with pytest.raises(GradcastError, match="does not exist; name a run directory"):
        load_model(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(GradcastError, match="is empty; name a run directory"):
        load_model(tmp_path / "empty")
    copy = own_copy(finished()[0], tmp_path)
    (copy / "base" / "env.json").unlink()
    with pytest.raises(GradcastError, match="base is not finished; complete it: gradcast run"):
        load_model(copy, "base")


def test_damaged_weights_are_one_sentence(tmp_path: Path) -> None:
    copy = own_copy(finished()[0], tmp_path)
    file = copy / "base" / "seed-0" / "weights.safetensors"
    state = {name: tensor.clone() for name, tensor in load_file(file).items()}  # the file itself is mapped
    faults: Sequence[tuple[bytes | dict[str, torch.Tensor], str]] = [
        (file.read_bytes()[:100], "cannot be read"),
        (b"", "cannot be read"),
        ({}, "Missing key"),
        ({**state, "model.extra": torch.zeros(1)}, "Unexpected key"),
        ({**state, "task-0.x": torch.zeros(1)}, "Unexpected key"),
        ({name: tensor[:1] for name, tensor in state.items()}, "size mismatch"),
    ]
    for content, sentence in faults:
        if isinstance(content, bytes):
            file.write_bytes(content)
        else:
            save_file(content, file)
        with pytest.raises(GradcastError, match=rf"weights\.safetensors .*{sentence}.*delete .*base and run again"):
            load_model(copy, "base")
    file.unlink()
    with pytest.raises(GradcastError, match=r"is missing; delete .*base and run again"):
        load_model(copy, "base")


@pytest.mark.parametrize(
    "change",
    [
        {"shape": [1, 8]},
        {"shape": [1, -8, 8]},
        {"shape": [1, 10**9, 10**9]},
        {"shape": None},
        {"mean": [0.1, 0.2], "std": [1.0, 1.0]},
        {"classes": ["0"]},
        {"permutations": [[0, 1]]},
        {"class_order": "nothing"},
        {"class_order": [[1]]},
    ],
)
def test_a_damaged_description_of_the_stream_is_one_sentence(tmp_path: Path, change: dict[str, object]) -> None:
    copy = own_copy(finished()[0], tmp_path)
    file = copy / "base" / "stream.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(GradcastError, match=r"stream\.json cannot be read.*delete .*base and run again"):
        load_model(copy, "base")


def test_an_older_run_without_names_has_numbers(tmp_path: Path) -> None:
    copy = own_copy(finished()[0], tmp_path)
    file = copy / "base" / "stream.json"
    file.write_text(json.dumps({k: v for k, v in json.loads(file.read_text()).items() if k != "classes"}))
    assert load_model(copy, "base").classes == [str(digit) for digit in range(10)]


def test_the_file_that_weights_began_with_is_not_needed(tmp_path: Path) -> None:
    start = tmp_path / "start.safetensors"
    save_file(MLP([64, 12, 10]).state_dict(), start)
    directory, _ = run(small(f"model.weights={start}", "seeds=[0]"), out=tmp_path / "out", device="cpu")
    start.unlink()
    assert load_model(directory.path, "base").classes[3] == "3"


def plain_accuracies(weights: Path, classes: list[list[int]]) -> tuple[list[float], list[float]]:
    """Accuracy on every task with the task known and without it, by plain torch and the files alone."""
    state = {name.removeprefix("model."): tensor for name, tensor in load_file(weights).items()}
    layers = [(state[f"layers.{place}.weight"], state[f"layers.{place}.bias"]) for place in (0, 2)]
    source, known, unknown = digits(0), list[float](), list[float]()
    columns = [label for task in classes for label in task]  # by the order of appearance
    for own in classes:
        chosen = np.isin(source.test.y, own)
        h = torch.from_numpy(source.test.x[chosen]).float().flatten(1) / 255
        (w1, b1), (w2, b2) = layers
        z = (h @ w1.T + b1).relu() @ w2.T + b2
        truth = source.test.y[chosen].tolist()
        inside = [own[place] for place in z[:, [columns.index(label) for label in own]].argmax(1).tolist()]
        anywhere = [columns[place] for place in z.argmax(1).tolist()]
        known.append(float(np.mean([a == b for a, b in zip(inside, truth, strict=True)])))
        unknown.append(float(np.mean([a == b for a, b in zip(anywhere, truth, strict=True)])))
    return known, unknown


def test_both_accuracies_are_those_of_the_saved_weights() -> None:
    directory, rows = class_incremental()
    classes = [[0, 1], [2, 3], [4, 5], [6, 7]]
    for row in rows:
        assert row.unknown is not None
        for place, seed in enumerate(row.seeds):
            known, unknown = plain_accuracies(directory.seed(row.name, seed) / "weights.safetensors", classes)
            assert row.matrices[place, -1].tolist() == known
            assert row.unknown.matrices[place, -1].tolist() == unknown
    assert rows[0].unknown is not None
    assert rows[0].over_seeds("acc").mean > rows[0].unknown.over_seeds("acc").mean > 0.2


def test_a_model_names_the_class_with_the_task_and_without_it() -> None:
    directory, rows = class_incremental()
    model = load_model(directory.path, "er", 1)
    assert model.classes == list("01234567")
    assert model.task_columns(2) == slice(4, 6)
    source = digits(0)
    x, y = source.test.x[source.test.y < 8], source.test.y[source.test.y < 8]
    found = model.predict(x)
    right = [name == str(label) for name, label in zip(found, y, strict=True)]
    by_task = [np.mean([r for r, label in zip(right, y, strict=True) if label // 2 == task]) for task in range(4)]
    assert rows[0].unknown is not None
    assert by_task == rows[0].unknown.matrices[1, -1].tolist()
    assert set(model.predict(x[:20], task=3)) <= {"6", "7"}
    with pytest.raises(GradcastError, match="there is no task 4"):
        model.predict(x[:2], task=4)


def test_uneven_tasks_have_columns_in_the_order_of_their_classes(tmp_path: Path) -> None:
    directory = RunDirectory(Path(shutil.copytree(class_incremental()[0].path, tmp_path / "run")))
    for name in (directory.path / "er").glob("manifest.json"):
        name.unlink()
    facts = json.loads((directory.path / "er" / "stream.json").read_text())
    facts |= {"task_classes": [[0, 1, 2], [3, 4], [4, 5, 6], [7]], "classes_per_task": 3}
    (directory.path / "er" / "stream.json").write_text(json.dumps(facts))
    model = load_model(directory.path, "er", 0)
    assert [model.task_columns(task) for task in range(4)] == [slice(0, 3), slice(3, 5), slice(4, 7), slice(7, 8)]
    assert model.classes == list("01234567")
