import numpy as np
import pytest
import torch

from gradcast.learners.acl import features as module
from gradcast.learners.acl.acl import Acl
from gradcast.networks.acl_network import AclNetwork
from gradcast.results.feature_map import feature_map
from tests.learners.acl.scene import CLASSES, LATENT, TaskOf
from tests.replicas.test_replicas import own_module
from tests.training.scene import acl_loop, finetune_loop, task_data


def test_features_are_those_of_plain_modules_with_the_private_module_of_every_task() -> None:
    loop = acl_loop((4, 3))
    loop.run([])
    assert isinstance(loop.trainer, Acl)
    found = loop.trainer.feature_map(loop.data)
    assert found is not None
    shared, private = [], []
    for task in range(2):
        net = own_module(loop.trainer.model, 0).eval()
        assert isinstance(net, AclNetwork)
        whole = loop.trainer.weights_for(task)[0]
        torch.nn.utils.vector_to_parameters(whole, net.parameters())
        part = loop.data.test(task)
        x = loop.data.stream.scale(part.x[part.index[0][: part.counts[0]]], torch.float64)
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
    loop.trainer.begin(TaskOf(0))
    assert isinstance(loop.trainer, Acl)
    every, count = (
        module._features(loop.trainer.model, loop.trainer.weights_for(0), loop.data, 0),
        int(loop.data.test(0).counts[0]),
    )
    monkeypatch.setattr(module, "IMAGES", 5)
    few = module._features(loop.trainer.model, loop.trainer.weights_for(0), loop.data, 0)
    assert few.shape == (2, 5, LATENT)
    np.testing.assert_allclose(few[:, [0, -1]], every[:, [0, count - 1]])


def test_other_learners_have_none() -> None:
    loop = finetune_loop()
    assert loop.trainer.feature_map(loop.data) is None


def test_one_task_has_nothing_to_be_told_apart_and_what_is_not_finite_shows_nothing() -> None:
    loop = acl_loop((3,))
    assert loop.trainer.feature_map(task_data((3,), tasks=1)) is None
    loop.trainer.model.theta.fill_(torch.nan)
    assert loop.trainer.feature_map(loop.data) is None
