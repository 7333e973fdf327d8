import torch
from gradcast.semi.meta_labels import MetaLabels
from gradcast.signals.excursion import explore, labelled_pass

from tests.semi.scene import moment, small_model


def test_labels_are_the_excursions_and_count_by_their_squared_distance_ramped_up() -> None:
    model, part = small_model(), MetaLabels()
    at = moment(model, lr=0.3, weight=0.25)
    told = part.watch(at)
    made, dz = labelled_pass(model, at.batch)
    seen = explore(model, at.unlabelled.x, made.pull(dz).flat, 0)
    assert part.label is not None
    assert torch.equal(part.label, seen.labels(0.3))
    away = (part.label - seen.here.softmax(-1)).abs().sum(-1).mean(-1) / 2  # total variation
    torch.testing.assert_close(told["label_movement"], away)
    assert (away > 0).all()
    z = torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True)
    loss = (z.softmax(-1) - part.label).square().sum(-1).mean(-1)
    slopes, said = part.slopes(at, z.detach())
    torch.testing.assert_close(slopes, 0.25 * torch.autograd.grad(loss.sum(), z)[0])
    torch.testing.assert_close(said["signal_loss"], loss.detach())


def test_the_weights_are_bit_for_bit_what_they_were() -> None:
    model = small_model()
    before, buffers = model.theta.clone(), {name: buffer.clone() for name, buffer in model.buffers.items()}
    MetaLabels().watch(moment(model))
    assert torch.equal(model.theta, before)
    assert all(torch.equal(model.buffers[name], buffer) for name, buffer in buffers.items())
