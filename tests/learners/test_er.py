from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch.nn.functional import cross_entropy

from gradcast.core import Batch
from gradcast.data.cifar import find_cifar, read_cifar
from gradcast.data.images import Images, Source
from gradcast.learners.er import ENTRY, Er, ErSpec
from gradcast.memories.reservoir import Reservoir
from gradcast.networks.resnet import SlimResNet18
from gradcast.randomness import derive
from gradcast.replicas.heads import Heads, HeadsKind
from gradcast.replicas.replicas import Replicas
from gradcast.runs.run import run
from gradcast.specs.text import load
from gradcast.streams.augment import AUGMENTATIONS
from gradcast.streams.reaugment import Reaugment
from gradcast.streams.scale import Scale
from gradcast.training.step import Step
from gradcast.training.trainer import StepTrainer, Turn
from tests.helpers import batch, replicas
from tests.learners.scene import descend
from tests.replicas.test_replicas import own_module


def test_a_step_descends_the_mean_loss_of_batch_and_replay() -> None:
    heads = Heads.even(3, 2, masked=True)
    model, learner = replicas(2, heads=heads, norm="batch"), Er(Reservoir(20, [0, 1]), count=3)
    step = Step(model, learner, 0.1)
    step(batch(model, task=0, seed=1))
    before = model.theta.clone()
    modules = [own_module(model, r) for r in range(2)]
    data = batch(model, task=1, seed=2)
    metrics = step(data)
    drawn = learner.replay()
    assert drawn is not None
    for replica, module in enumerate(modules):
        module.train()
        outputs = module(torch.cat([data.x[replica], drawn.x[replica]]))
        assert drawn.tasks[replica].tolist() == [0, 0, 0]
        new, old = outputs[:4, 3:], outputs[4:, :3]
        losses = [cross_entropy(z, y, reduction="none") for z, y in ((new, data.y[replica]), (old, drawn.y[replica]))]
        gradients = torch.autograd.grad(torch.cat(losses).mean(), list(module.parameters()))
        expected = before[replica] - 0.1 * torch.cat([gradient.flatten() for gradient in gradients])
        torch.testing.assert_close(model.theta[replica], expected)
        torch.testing.assert_close(metrics["loss"][replica], losses[0].mean())


@pytest.mark.parametrize(("kind", "columns"), [("seen", 4), ("all", 6)])
def test_classes_of_past_and_present_tasks_compete_in_batch_and_replay(kind: HeadsKind, columns: int) -> None:
    heads = Heads.of([(0, 1), (2, 3), (4, 5)], kind)
    model, learner = replicas(2, sizes=(6, 5, 6), heads=heads), Er(Reservoir(20, [0, 1]), count=3)
    step, first, second = Step(model, learner, 0.1), batch(model, task=0, seed=1), batch(model, task=1, seed=2)
    step(replace(first, y=first.y % 2))
    before, modules = model.theta.clone(), [own_module(model, r) for r in range(2)]
    data = replace(second, y=second.y % 2 + 2)
    metrics = step(data)
    drawn = learner.replay()
    assert drawn is not None
    for replica, module in enumerate(modules):
        outputs = module(torch.cat([data.x[replica], drawn.x[replica]]))[:, :columns]
        loss = cross_entropy(outputs, torch.cat([data.y[replica], drawn.y[replica]]))
        assert set(drawn.y[replica].tolist()) <= {0, 1}
        gradients = torch.autograd.grad(loss, list(module.parameters()), retain_graph=True)
        expected = before[replica] - 0.1 * torch.cat([gradient.flatten() for gradient in gradients])
        torch.testing.assert_close(model.theta[replica], expected)
        torch.testing.assert_close(metrics["loss"][replica], cross_entropy(outputs[:4], data.y[replica]))


def test_the_first_step_has_nothing_to_replay_and_the_second_not_itself() -> None:
    model, learner = replicas(2), Er(Reservoir(20, [0, 1]), count=4)
    learner.prepare(model, batch(model, seed=1))
    assert learner.replay() is None
    learner.prepare(model, batch(model, seed=2))
    drawn = learner.replay()
    assert drawn is not None
    assert torch.equal(drawn.x.sort(dim=1).values, batch(model, seed=1).x.sort(dim=1).values)


def test_repeated_rehearsal_updates_with_other_images_and_stores_each_once() -> None:
    plain, model = replicas(2), replicas(2)
    once, often = Er(Reservoir(20, [0, 1]), count=3), Er(Reservoir(20, [0, 1]), count=3, every=True)
    spelled, trainer = Step(plain, once, 0.1), StepTrainer(Step(model, often, 0.1), repeats=3)
    for number in range(3):
        data = batch(model, seed=number)
        trainer.step(data, tuple, Turn(0, number, 0, number, 0.1, numbered=True))
        spelled(data)
        for _ in range(2):
            spelled(replace(data, repeated=4))
        assert once.memory.seen == often.memory.seen == 4 * (number + 1)
    assert torch.equal(plain.theta, model.theta)
    assert ENTRY.describe(ErSpec(name="er", repeats=3)) == "ER, 3 updates a batch"


def pictured(model: Replicas, seed: int) -> Batch:
    """A batch of small colour images."""
    found = batch(model, seed=seed)
    return replace(found, x=found.x.unflatten(2, (3, 4, 4)))


def test_batch_and_replay_are_augmented_in_every_update_and_stored_as_they_came() -> None:
    model, show = replicas(1, sizes=(48, 5, 3)), Reaugment((AUGMENTATIONS["flip"],), Scale())
    learner = Er(Reservoir(20, [0]), count=3, augment=show)
    step, module = Step(model, learner, 0.1), own_module(model, 0)
    for number in range(20):
        data = pictured(model, number)
        step(data)
        drawn = learner.replay()
        x, y = data.x[0], data.y[0]
        if drawn is not None:
            x, y = torch.cat([x, drawn.x[0]]), torch.cat([y, drawn.y[0]])
        generator = torch.Generator().manual_seed(derive(0, "dropout", "labelled", number))
        turned = torch.rand(len(y), dtype=torch.float64, generator=generator) < 0.5
        seen = torch.stack([image.flip(-1) if own else image for image, own in zip(x, turned, strict=True)])
        flat = descend(list(module.parameters()), cross_entropy(module(seen), y), 0.1)
        torch.testing.assert_close(model.theta[0], flat, rtol=1e-9, atol=1e-12)
    came = {image.numpy().tobytes() for number in range(20) for image in pictured(model, number).x[0]}
    assert {image.numpy().tobytes() for image in learner.memory.filled["x"][0]} <= came


def test_every_update_of_repeated_rehearsal_shows_other_images(monkeypatch: pytest.MonkeyPatch) -> None:
    model, show = replicas(1, sizes=(48, 5, 3)), Reaugment((AUGMENTATIONS["shift"], AUGMENTATIONS["flip"]), Scale())
    learner, seen = Er(Reservoir(20, [0]), count=3, augment=show), list[torch.Tensor]()
    plain = learner.shown
    monkeypatch.setattr(learner, "shown", lambda model, x: (seen.append(plain(model, x)), seen[-1])[1])
    trainer = StepTrainer(Step(model, learner, 0.1), repeats=4)
    trainer.step(pictured(model, 0), tuple, Turn(0, 0, 0, 0, 0.1))
    assert [x.shape[1] for x in seen] == [4, 7, 7, 7]
    assert len({x[:, :4].numpy().tobytes() for x in seen}) == 4
    assert learner.memory.seen == 4
    assert ENTRY.describe(ErSpec(name="er", repeats=4, augment=["shift"])) == "ER, 4 updates a batch, augmented"


def test_replicas_together_equal_replicas_alone() -> None:
    together = replicas(2)
    step = Step(together, Er(Reservoir(6, [0, 1]), count=3), 0.1)
    alone = replicas(1, first_seed=1)
    single = Step(alone, Er(Reservoir(6, [1]), count=3), 0.1)
    for number in range(8):
        data = batch(together, seed=number)
        step(data)
        single(type(data)(data.x[1:], data.y[1:], data.task))
    torch.testing.assert_close(together.theta[1:], alone.theta)


def plain_accuracies(
    weights: Path, test: Images, tasks: int, moments: tuple[np.ndarray, np.ndarray]
) -> list[list[float]]:
    """Accuracy on every task of two classes, with the task known and without it, by a plain network of the file."""
    state = {name.removeprefix("model."): tensor for name, tensor in load_file(weights).items()}
    network = SlimResNet18(4, 2 * tasks)
    network.load_state_dict(state)
    network.eval()
    found: list[list[float]] = [[], []]
    for task in range(tasks):
        own = np.flatnonzero(test.y // 2 == task)
        x = (test.x[own] / 255 - moments[0][:, None, None]) / moments[1][:, None, None]
        with torch.no_grad():
            z = torch.cat([network(part) for part in torch.from_numpy(x).float().split(100)])
        y = torch.from_numpy(test.y[own])
        inside = z[:, 2 * task : 2 * task + 2].argmax(1) + 2 * task
        for kind, answers in zip(found, (inside, z.argmax(1)), strict=True):
            kind.append(float((answers == y).double().mean()))
    return found


def first_of_each(images: Images, count: int) -> Images:
    """So many images of every class."""
    chosen = np.concatenate([np.flatnonzero(images.y == label)[:count] for label in range(10)])
    return Images(np.asarray(images.x[np.sort(chosen)]), images.y[np.sort(chosen)])


@pytest.mark.data
def test_both_accuracies_on_cifar_10_are_those_of_the_saved_weights(tmp_path: Path, data: Path) -> None:
    found = find_cifar("cifar-10", data)
    if found is None:
        pytest.skip("put cifar-10 into $GRADCAST_DATA to run this")
    whole = read_cifar("cifar-10", *found)
    source = Source("few", first_of_each(whole.train, 100), first_of_each(whole.test, 40), whole.classes)
    spec = load("split-cifar10", ["model.width=4", "seeds=[0]"])
    spec = spec.model_copy(update={"rows": [row for row in spec.rows if row.name == "er-500"]})
    directory, (row,) = run(spec, out=tmp_path, source=source, device="cpu")
    facts = directory.drawn("er-500")
    moments = (np.array(facts["mean"]), np.array(facts["std"]))
    known, unknown = plain_accuracies(directory.seed("er-500", 0) / "weights.safetensors", source.test, 5, moments)
    assert row.unknown is not None
    assert row.matrices[0, -1].tolist() == pytest.approx(known, abs=0.013)  # one image of 80 may lie on a border
    assert row.unknown.matrices[0, -1].tolist() == pytest.approx(unknown, abs=0.013)
    assert np.mean(known) > np.mean(unknown)
