import numpy as np
import pytest
import torch

from gradcast.learners.acl import features as module
from gradcast.learners.acl.acl import Acl
from gradcast.learners.acl.features import likeness
from gradcast.networks.acl_network import AclNetwork
from gradcast.results.feature_map import feature_map
from tests.epochs.scene import acl_loop, finetune_loop
from tests.learners.acl.scene import CLASSES, LATENT
from tests.test_replicas import own_module


def test_features_are_those_of_plain_modules_with_the_private_module_of_every_task() -> None:
    loop = acl_loop((4, 3))
    loop.run([])
    assert isinstance(loop.learner, Acl)
    found = likeness(loop)
    assert found is not None
    shared, private = [], []
    for task in range(2):
        net = own_module(loop.learner.model, 0).eval()
        assert isinstance(net, AclNetwork)
        whole = loop.learner.weights_for(task)[0]
        torch.nn.utils.vector_to_parameters(whole, net.parameters())
        part = loop.lessons.test(task)
        x = loop.lessons.scale(part.x[part.index[0][: part.counts[0]]], torch.float64)
        with torch.no_grad():
            _, zs, zp = net(x).split([CLASSES, LATENT, LATENT], dim=1)
        shared.append(zs.numpy())
        private.append(zp.numpy())
    expected = feature_map(shared, private)
    assert found.tasks.tolist() == expected.tasks.tolist()
    for view, plain in ((found.shared, expected.shared), (found.private, expected.private)):
        np.testing.assert_allclose(view.points, plain.points, atol=1e-9)
        assert (view.probe, view.explained) == pytest.approx((plain.probe, plain.explained))
    assert not np.allclose(found.shared.points, found.private.points)


def test_many_images_are_thinned_out_over_all_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = acl_loop()
    loop.learner.begin(0)
    assert isinstance(loop.learner, Acl)
    every, count = module._features(loop.learner, loop.lessons, 0), int(loop.lessons.test(0).counts[0])
    monkeypatch.setattr(module, "IMAGES", 5)
    few = module._features(loop.learner, loop.lessons, 0)
    assert few.shape == (2, 5, LATENT)
    np.testing.assert_allclose(few[:, [0, -1]], every[:, [0, count - 1]])


def test_other_learners_have_none() -> None:
    assert likeness(finetune_loop()) is None
