import torch

from gradcast.core import Batch
from gradcast.learners.acl.settings import AclSettings
from tests.learners.acl.scene import batch, learner


def test_batches_that_pass_together_have_the_mean_of_their_losses() -> None:
    acl, parts = learner(), [batch(seed) for seed in range(3)]
    together = Batch(torch.cat([each.x for each in parts], 1), torch.cat([each.y for each in parts], 1), 0)
    found, alone = acl.loss(together, 3), [acl.loss(each) for each in parts]
    for name in ("loss", "adversarial", "orthogonality"):
        torch.testing.assert_close(found[name], torch.stack([each[name] for each in alone]).mean(0))
    assert found["hits"].tolist() == sum(each["hits"] for each in alone).tolist()
    assert not torch.isclose(acl.loss(together)["orthogonality"], found["orthogonality"]).any()


def test_slopes_of_parts_are_those_of_the_mean() -> None:
    acl, data = learner(), batch(0, size=6)
    outputs = acl.model.everything(data.x).z
    first = torch.zeros_like(data.y)
    cuts = (slice(0, 3), slice(3, 6))
    alone = [acl.adversary.losses(acl.model, outputs[:, cut], first[:, cut])[0] for cut in cuts]
    torch.testing.assert_close(acl.adversary.losses(acl.model, outputs, first, 2)[0], torch.cat(alone, 1) / 2)


def test_without_the_difference_features_are_neither_compared_nor_is_the_adversarial_gradient_reversed() -> None:
    """The published code has its reversal layer only together with the difference loss."""
    data, found = batch(0), []
    for difference in (True, False):
        acl = learner(settings=AclSettings(difference=difference, orthogonal=0.0, reversal=1.0))
        outputs = acl.model.everything(data.x).z
        found.append(acl.adversary.losses(acl.model, outputs, torch.zeros_like(data.y)))
    (reversed_, told), (plain, without) = found
    torch.testing.assert_close(reversed_, -plain)
    assert told["orthogonality"].all()
    assert not without["orthogonality"].any()
    torch.testing.assert_close(told["adversarial"], without["adversarial"])
