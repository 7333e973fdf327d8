import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from gradcast.core import Labelled
from gradcast.errors import GradcastError
from gradcast.gradients.cross_entropy import cross_entropy as with_slope
from gradcast.replicas.replicas import Replicas
from gradcast.runs.prepared import PreparedRun
from gradcast.signals.head import Head
from gradcast.signals.mutexmatch import MutexMatch, least_likely
from gradcast.specs.fit import check
from gradcast.specs.text import load
from tests.helpers import flat
from tests.replicas.test_replicas import own_module
from tests.signals import plain_loop
from tests.signals.plain_loop import HEADS, LR, Shown, SignalLoss
from tests.signals.scene import Scene, scene
from tests.training.scene import shared

THRESHOLD, IMAGES, WEIGHT = 0.6, 5, 0.7


def signal(model: Replicas, k: int | None, seeds: tuple[int, ...] = (0, 1)) -> MutexMatch:
    head = Head([5, model.heads.logits], seeds, "mutexmatch", model.theta, lr=LR)
    return MutexMatch(head, weight=WEIGHT, threshold=THRESHOLD, k=k)


def spelled(tnc: Tensor, k: int | None) -> SignalLoss:
    """The formula for one seed, image by image; bias is the last column of the second classifier."""

    def negative(features: Tensor, columns: list[int]) -> Tensor:
        return (features @ tnc[:, :-1].T + tnc[:, -1])[:, columns]

    def loss(network: nn.Module, shown: Shown, step: int) -> Tensor:
        assert shown.unlabelled is not None
        images = torch.cat([shown.unlabelled, shown.x])
        features, z = plain_loop.features_and_logits(network, images, shown.columns)
        count = len(shown.unlabelled) // 2
        sure = unsure = torch.zeros((), dtype=torch.float64)
        for i in range(count):
            p = z[i].softmax(-1).detach()
            if p.max() >= THRESHOLD:
                sure = sure + cross_entropy(z[count + i], p.argmax())
                continue
            q = negative(features[i : i + 1], shown.columns)[0].softmax(-1).detach()
            other = negative(features[count + i : count + i + 1], shown.columns)[0]
            if k is not None and k < len(q):
                kept = q >= q.sort(descending=True).values[k - 1]
                q, other = q * kept, other * kept
            unsure = unsure - (q * other.log_softmax(-1)).sum()
        own = cross_entropy(negative(features.detach(), shown.columns), z.softmax(-1).detach().argmin(-1))
        return WEIGHT * (sure + unsure) / count + own

    return loss


@pytest.mark.parametrize("k", [None, 2, 1])
@pytest.mark.parametrize("kind", HEADS)
@pytest.mark.parametrize("replica", [0, 1])
def test_three_tasks_train_as_in_a_plain_loop(kind: str, replica: int, k: int | None) -> None:
    heads = HEADS[kind]
    model = plain_loop.model(heads)
    own = signal(model, k)
    plain, tnc = own_module(model, replica).train(), own.head.weights[0][replica].detach().clone().requires_grad_()
    losses = plain_loop.together(own, model, IMAGES)
    expected = plain_loop.alone(plain, heads, IMAGES, replica, [tnc], spelled(tnc, k))
    torch.testing.assert_close(model.theta[replica], flat(plain).detach(), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(own.head.weights[0][replica], tnc, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(losses[:, replica], expected, rtol=1e-9, atol=1e-9, equal_nan=True)


def test_replicas_train_together_as_they_do_alone() -> None:
    heads = HEADS["uneven tasks"]
    both, single = plain_loop.model(heads), plain_loop.model(heads, 1, first_seed=1)
    first, second = signal(both, 2), signal(single, 2, (1,))
    plain_loop.together(first, both, IMAGES)
    plain_loop.together(second, single, IMAGES, only=1)
    torch.testing.assert_close(both.theta[1:], single.theta, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(first.head.weights[0][1:], second.head.weights[0], rtol=1e-12, atol=1e-12)


def shown(threshold: float, weight: float = WEIGHT) -> tuple[Scene, MutexMatch, Tensor]:
    """The gradient of one step, and the second classifier before it."""
    at = scene(views=2, norm="batch")
    own = signal(at.model, None)
    own.threshold, own.weight = threshold, weight
    made = at.model.forward(at.batch.x, 1, statistics="separate")
    own.learn(at.model, Labelled(at.batch, made.z, with_slope(made.z, at.batch.y)[1], LR, made.whole))
    return at, own, own.head.weights[0].detach().clone()


def test_where_the_model_is_sure_of_everything_the_second_classifier_does_not_reach_it() -> None:
    at, own, before = shown(0.0)
    gradient, told = own.gradient(at.model, at.unlabelled, 1)
    own.head.weights[0].data.copy_(before.flip(1))
    again, _ = own.gradient(at.model, at.unlabelled, 1)
    torch.testing.assert_close(gradient.flat, again.flat)
    assert told["confident"].tolist() == [1, 1]


def test_where_it_is_sure_of_nothing_only_the_features_learn() -> None:
    at, own, before = shown(1.0)
    gradient, told = own.gradient(at.model, at.unlabelled, 1)
    assert told["confident"].tolist() == [0, 0]
    assert not gradient.flat[:, -36:].any()  # the output layer: two heads of three classes, five features and a bias
    assert gradient.flat[:, :-36].any(1).all()
    assert not torch.equal(own.head.weights[0], before)


def test_the_second_classifier_learns_by_itself_where_the_weight_is_zero() -> None:
    at, own, before = shown(0.5, weight=0.0)
    gradient, _ = own.gradient(at.model, at.unlabelled, 1)
    assert not gradient.flat.any()
    assert not torch.equal(own.head.weights[0], before)


def test_the_least_likely_class_is_one_that_exists() -> None:
    model = plain_loop.model(HEADS["classes seen"])
    z = model.heads.columns(torch.tensor([[3.0, -1, 2, 0, 0, 0]]), 0)
    assert least_likely(z).tolist() == [1]


def test_views_are_compared_by_no_more_classes_than_there_are() -> None:
    def setting(k: str) -> None:
        found = load("digits", ["signal.name=mutexmatch", f"signal.k={k}"]).rows[1].setting
        run: PreparedRun = shared()
        check(found, run.stream(found))

    setting("10")
    setting("all")
    with pytest.raises(GradcastError, match=r"signal\.k = 11 is more than the 10 classes that a loss sees") as caught:
        setting("11")
    assert "\n" not in str(caught.value)
    for bad in ("0", "most"):
        with pytest.raises(GradcastError, match=rf"signal\.k = '?{bad}'? is not valid"):
            setting(bad)
