from dataclasses import replace

import torch
from torch.nn.functional import cross_entropy

from gradcast.gradients.length import Length
from gradcast.signals.true_labels import TrueLabels
from tests.replicas.test_replicas import own_module
from tests.signals.scene import Scene, scene

TRUTH = torch.tensor([[0, 2, 1, 1, 0, 2], [2, 2, 0, 1, 1, 1]])


def told(at: Scene, images: int = 6) -> Scene:
    return replace(at, unlabelled=replace(at.unlabelled, truth=TRUTH[:, :images]))


def test_the_gradient_is_that_of_cross_entropy_with_the_truth() -> None:
    at, signal = told(scene(norm="batch")), TrueLabels(weight=0.7)
    assert at.learn(signal) == {}
    found = at.gradient(signal)
    for replica in range(2):
        module = own_module(at.model, replica).train()
        loss = 0.7 * cross_entropy(module(at.unlabelled.x[replica])[:, 3:], TRUTH[replica])
        gradients = torch.autograd.grad(loss, list(module.parameters()))
        torch.testing.assert_close(found[replica], torch.cat([gradient.flatten() for gradient in gradients]))


def test_with_a_length_every_row_has_it_and_keeps_its_direction() -> None:
    at, signal = told(scene(linear=True, images=1), 1), TrueLabels(length=Length(0.5))
    tau = at.learn(signal)["tau"]
    found = at.gradient(signal)[:, 36:]  # of one image, the gradient of the bias is the logit gradient
    torch.testing.assert_close(found.norm(dim=1), 0.5 * tau)
    plain = at.gradient(TrueLabels())[:, 36:]
    torch.testing.assert_close(found / found.norm(dim=1, keepdim=True), plain / plain.norm(dim=1, keepdim=True))
