import random
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits

import gradcast
from gradcast.data.cache import Cache
from gradcast.data.images import Source
from gradcast.data.load import Shelf, untracked
from gradcast.data.own_tasks import own_tasks
from gradcast.errors import GradcastError
from gradcast.results.report.read import read_run
from gradcast.results.report.sections import sections
from gradcast.runs.directory import RunDirectory
from gradcast.specs.build import heads
from gradcast.specs.build_stream import stream
from gradcast.specs.spec import Setting
from gradcast.specs.text import load
from gradcast.streams.stream import Stream
from tests.data.images import fill
from tests.runs.checkpoint.scene import Scene, tiny

DIGITS = load_digits()
TASKS = {"task2": ("one", "seven"), "task10": ("zero", "seven", "four"), "task11": ("one",)}
NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven")


def digit(label: str, number: int) -> np.ndarray:
    """An image of a digit, 8 x 8, in bytes."""
    place = np.flatnonzero(DIGITS.target == NAMES.index(label))[number]
    found: np.ndarray = (DIGITS.images[place] * (255 / 16)).astype(np.uint8)
    return found


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three tasks of different sizes in which classes come new and again; the last has a class of two images."""
    root = tmp_path_factory.mktemp("photos")
    for task, (name, labels) in enumerate(TASKS.items()):
        for label in labels:
            folder = root / name / label
            folder.mkdir(parents=True)
            for number in range(2 if name == "task11" else 12 + 3 * task):
                Image.fromarray(digit(label, 30 * task + number)).save(folder / f"{number}.png")
    return root


def setting(*settings: str) -> Setting:
    return load("digits", ["stream.samples=all", *settings]).rows[0].setting


def made(tmp_path: Path, *settings: str) -> Stream:
    shelf = Shelf(tmp_path, Cache(tmp_path / "cache"), untracked)
    return stream(setting("stream.source=tasks", *settings).stream, shelf)


def test_tasks_of_ones_own_in_natural_order_with_classes_that_return(tmp_path: Path, photos: Path) -> None:
    found = made(tmp_path, f"stream.path={photos}")
    assert found.facts["task_names"] == ["task2", "task10", "task11"]
    assert found.facts["classes"] == ["one", "seven", "four", "zero"]
    assert found.task_classes == ((0, 1), (1, 2, 3), (0,))
    assert [len(task.train) for task in found.tasks] == [20, 36, 1]
    assert [len(task.test) for task in found.tasks] == [4, 9, 1]
    for task, (name, labels) in zip(found.tasks, TASKS.items(), strict=True):
        for part in (task.train, task.test):
            shown = {
                (tuple(x.ravel()), found.facts["classes"][task.classes[y]])
                for x, y in zip(part.images().x, part.y, strict=True)
            }
            own = {(tuple(digit(label, number).ravel()), label) for label in labels for number in range(80)}
            assert shown <= own, name


def test_a_list_of_paths_is_taken_as_it_is_given(tmp_path: Path, photos: Path) -> None:
    listed = [str(photos / name) for name in ("task10", "task2")]
    found = made(tmp_path, f"stream.path={listed}")
    assert found.facts["task_names"] == ["task10", "task2"]
    assert found.content != made(tmp_path, f"stream.path={listed[::-1]}").content


@pytest.mark.parametrize(
    ("classes", "choice", "columns"),
    [
        ([("a", "b"), ("b", "a")], "auto", ((0, 1), (0, 1))),
        ([("a", "b"), ("b", "c")], "auto", ((0, 1), (1, 2))),
        ([("a", "b"), ("b", "a")], "masked", ((0, 1), (2, 3))),
    ],
    ids=["the same classes share a head", "others have columns of their own", "a head a task where that is asked for"],
)
def test_heads_follow_the_classes(classes: list[tuple[str, ...]], choice: str, columns: object) -> None:
    x = np.zeros((2, 4, 4), dtype=np.uint8)
    tasks = own_tasks([(x, labels, x, labels) for labels in classes])
    own = setting("stream.source=tasks", "stream.path=x", f"model.heads={choice}")
    found = stream(own.stream, Shelf(Path(), Cache(Path()), untracked), tasks)
    assert heads(own, found).task_columns == columns


def test_from_photographs_to_a_model_that_names_classes(tmp_path: Path, photos: Path) -> None:
    spec = load(
        "digits",
        [
            "stream.source=tasks",
            f"stream.path={photos}",
            "stream.samples=all",
            "stream.epochs=8",
            "seeds=[0, 1]",
            "model.hidden=[20]",
        ],
    )
    spec = spec.model_copy(update={"rows": spec.rows[:1]})
    done = gradcast.run(spec, out=tmp_path / "runs", device="cpu", progress=False)
    stored = RunDirectory(done.directory).spec.rows[0].setting.stream
    assert (stored.scenario, stored.tasks) == ("own", 3)
    assert done.rows[0].matrices.shape == (2, 4, 3)
    report = (done.directory / "report.md").read_text()
    assert "| 2 | task10 | seven, four, zero | 36 | 9 |" in report
    page = "".join(section.title for section in sections(read_run(done.directory)))
    assert "Tasks" in page
    again = gradcast.run(spec, out=tmp_path / "runs", device="cpu", progress=False)
    assert again.directory == done.directory
    model = gradcast.load_model(done, seed=1)
    assert model.classes == ["one", "seven", "four", "zero"]
    answers = []
    for label in TASKS["task10"]:
        logits = model(model.preprocess(Image.fromarray(digit(label, 30))))
        answers.append(model.classes[int(logits.argmax())])
    assert answers == list(TASKS["task10"])


@pytest.mark.parametrize("learner", ["gem", "er", "a-gem"])
def test_own_tasks_resume_to_the_same_bytes_and_seeds_do_not_depend_on_each_other(
    tmp_path: Path, photos: Path, learner: str
) -> None:
    scene = Scene(tmp_path)
    settings = (
        f"learner.name={learner}",
        "stream.samples=all",
        "stream.source=tasks",
        f"stream.path={photos}",
        "stream.tasks=3",
    )
    whole = scene.train(tiny(*settings), "whole")
    assert whole is not None
    assert scene.with_cuts(tiny(*settings), "cut", random.Random(learner)) == whole
    alone = scene.train(tiny(*settings, seeds=(5,)), "alone")
    assert alone is not None
    matrices = [
        np.loadtxt(text.decode().splitlines(), delimiter=",", skiprows=1)
        for text in (alone["seed-5/accuracy.csv"], whole["seed-5/accuracy.csv"])
    ]
    assert np.allclose(*matrices)


def test_tasks_from_python_take_the_place_of_the_scenario(tmp_path: Path) -> None:
    x = torch.rand(12, 8, 8, generator=torch.Generator().manual_seed(0))
    y = ["cat", "dog"] * 6
    tasks = own_tasks({"first": (x, y, x, y), "second": (x, ["owl"] * 12, x[:2], ["owl"] * 2)})
    spec = load("digits", ["stream.samples=all", "seeds=[0]", "model.hidden=[4]"])
    done = gradcast.run(
        spec.model_copy(update={"rows": spec.rows[:1]}), out=tmp_path, device="cpu", progress=False, source=tasks
    )
    stored = RunDirectory(done.directory).spec.rows[0].setting.stream
    assert (stored.source, stored.scenario, stored.tasks) == ("python", "own", 2)
    assert gradcast.load_model(done).classes == ["cat", "dog", "owl"]


def test_the_scenario_own_without_tasks_is_refused() -> None:
    x = np.zeros((2, 1, 4, 4), dtype=np.uint8)
    images = gradcast.own_data(x, [0, 1], x, [0, 1])
    assert isinstance(images, Source)
    own = setting("stream.source=python", "stream.scenario=own", "stream.tasks=2")
    with pytest.raises(GradcastError, match=re.escape("bring gradcast.own_tasks(...)")):
        stream(own.stream, Shelf(Path(), Cache(Path()), untracked), images)


@pytest.mark.parametrize(
    ("change", "settings", "message"),
    [
        ("none", ["stream.tasks=4"], "stream.tasks = 4 and {root} has 3 tasks; leave stream.tasks out"),
        ("none", ["stream.samples=1000"], "task 0 has 20 training images, stream.samples asks for 1000; lower it"),
        ("empty task", [], "task 'task3': {root}/task3 has no folders of images; lay it out as train/CLASS/"),
        ("images alone", [], "task 'task3': {root}/task3 has no folders of images"),
        ("no test", [], "task 'task3': {root}/task3 has folders in train/ but neither test/ nor val/; add one"),
        ("stranger", [], "task 'task3': class 'owl' of {root}/task3 has test images but no training image"),
        ("single image", [], "task 'task3': class 'cat' of {root}/task3 has a single image"),
        (
            "other size",
            [],
            "task 'task2' has images of shape (1, 8, 8) and task 'task3' images of shape (3, 12, 12)",
        ),
        ("npz", [], "task 'task3': {root}/task3.npz has no array 'x_test'; it must hold x_train, y_train"),
        ("twice", [], "2 tasks of {root} are called 'task2'; rename all but one"),
    ],
)
def test_odd_tasks_are_told_in_a_sentence(
    tmp_path: Path, photos: Path, change: str, settings: list[str], message: str
) -> None:
    root = tmp_path / "odd"
    root.mkdir()
    for name in TASKS:
        (root / name).symlink_to(photos / name)
    odd = root / "task3"
    match change:
        case "empty task":
            odd.mkdir()
        case "images alone":
            fill(odd, 3)
        case "no test":
            fill(odd / "train" / "cat", 3)
        case "stranger":
            fill(odd / "train" / "cat", 3)
            fill(odd / "test" / "cat", 1)
            fill(odd / "test" / "owl", 1)
        case "single image":
            fill(odd / "cat", 1)
        case "other size":
            fill(odd / "cat", 3)
        case "npz":
            np.savez(root / "task3.npz", x_train=np.zeros((1, 8, 8)), y_train=np.zeros(1, dtype=int))
        case "twice":
            np.savez(root / "task2.npz", x_train=np.zeros((1, 8, 8)))
    with pytest.raises(GradcastError, match=re.escape(message.format(root=root))):
        made(tmp_path, f"stream.path={root}", *settings)


def of_digits(tmp_path: Path, *settings: str) -> Stream:
    shelf = Shelf(tmp_path, Cache(tmp_path / "cache"), untracked)
    return stream(load("digits", settings).rows[0].setting.stream, shelf)


@pytest.mark.parametrize("scenario", ["rotated", "permuted", "split"])
def test_the_first_tasks_alone_are_as_they_are_with_all(tmp_path: Path, scenario: str) -> None:
    common = (f"stream.scenario={scenario}", "stream.tasks=5", "stream.samples=50")
    whole, first = of_digits(tmp_path, *common), of_digits(tmp_path, *common, "stream.first_tasks=2")
    assert len(first.tasks) == 2
    assert first.task_classes == whole.task_classes[:2]
    for task in range(2):
        assert np.array_equal(first.test(task).x, whole.test(task).x)
    assert load("digits", [*common, "stream.first_tasks=9"]).rows[0].setting.stream.task_count == 5


def test_the_first_tasks_of_seeds_with_tasks_of_their_own(tmp_path: Path) -> None:
    common = ("stream.scenario=split", "stream.tasks=5", "stream.class_order=seeded", "stream.samples=50")
    whole, first = of_digits(tmp_path, *common), of_digits(tmp_path, *common, "stream.first_tasks=2")
    assert first.own_tasks is not None
    assert len(first.own_tasks(7)) == 2
    assert first.task(1, 7).classes == whole.task(1, 7).classes


def test_validation_images_come_out_of_training_and_lower_the_samples(tmp_path: Path) -> None:
    plain, held = (
        of_digits(tmp_path, "stream.samples=1297"),
        of_digits(tmp_path, "stream.samples=1297", "stream.validation=0.1"),
    )
    train, test = held.tasks[0].train, held.tasks[0].test
    assert len(train) + len(test) == len(plain.tasks[0].train) == 1297
    assert held.samples == len(train) < 1297
    assert held.content != plain.content
