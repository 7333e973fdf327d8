from collections import Counter

import pytest
import torch
from torch import Tensor, nn

from gradcast.replicas.replicas import Replicas
from gradcast.signals.dual_student import Answers, DualStudent, DualStudentSpec, apart
from gradcast.signals.head import Head
from gradcast.specs import build
from tests.helpers import flat
from tests.replicas.test_replicas import own_module
from tests.signals import plain_loop, plain_networks
from tests.signals.plain_loop import HEADS, LR, Shown
from tests.signals.plain_networks import Told, risen

CONSISTENCY, STABILISATION, THRESHOLD, DISTANCE, RAMP, IMAGES = 3.0, 5.0, 0.5, 0.2, 0.5, 5


def signal(model: Replicas) -> DualStudent:
    heads = [
        Head([5, model.heads.logits], [0, 1], name, model.theta, lr=LR, optimizer=plain_networks.sgd())
        for name in ("first", "second")
    ]
    return DualStudent(
        plain_networks.peer(model.heads),
        heads,
        plain_networks.progress(model),
        consistency=CONSISTENCY,
        stabilisation=STABILISATION,
        threshold=THRESHOLD,
        distance=DISTANCE,
        ramp=RAMP,
    )


class Spelled:
    """Both students' losses of one seed, image by image; ``met`` counts who imitated whom and why."""

    def __init__(self, students: list[nn.Module], heads: list[Tensor]) -> None:
        self.students, self.heads, self.met = students, heads, Counter[str]()

    def __call__(self, shown: Shown, step: int) -> Told:
        assert shown.unlabelled is not None
        said = []
        for network, head in zip(self.students, self.heads, strict=True):
            features, z = plain_loop.features_and_logits(network, shown.unlabelled, shown.columns)
            said.append((z, (features @ head[:, :-1].T + head[:, -1])[:, shown.columns]))
        losses = [self.student(said, number, step) for number in (0, 1)]
        return losses[0] + losses[1], losses[0]

    def student(self, said: list[tuple[Tensor, Tensor]], number: int, step: int) -> Tensor:
        consistency = stabilisation = distance = torch.zeros((), dtype=torch.float64)
        for i in range(IMAGES):
            (p, q, r), (pe, qe, re) = self.answers(said, number, i), self.answers(said, 1 - number, i)
            own, other = ((r - q) ** 2).mean(), ((re - qe) ** 2).mean()
            consistency = consistency + own
            stable, leads = self.stable(p, q), self.stable(pe, qe)
            if leads and (not stable or other < own):
                self.met["less stable" if stable else "unstable"] += 1
                stabilisation = stabilisation + ((r - pe.detach()) ** 2).mean()
            z, second = (logits[number * IMAGES + i] for logits in said[number])
            distance = distance + ((z - second) ** 2).mean()
        consistency, stabilisation, distance = consistency / IMAGES, stabilisation / IMAGES, distance / IMAGES
        weight = STABILISATION * IMAGES / (IMAGES + 4)
        return risen(step, RAMP) * (CONSISTENCY * consistency + weight * stabilisation) + DISTANCE * distance

    def answers(self, said: list[tuple[Tensor, Tensor]], number: int, i: int) -> tuple[Tensor, Tensor, Tensor]:
        """Probabilities of the student's own view, of the other view, and by the second head of its own."""
        z, second = said[number]
        own, other = number * IMAGES + i, (1 - number) * IMAGES + i
        return z[own].softmax(-1), z[other].detach().softmax(-1), second[own].softmax(-1)

    @staticmethod
    def stable(p: Tensor, q: Tensor) -> bool:
        return bool(p.argmax() == q.argmax()) and bool(p.max() > THRESHOLD or q.max() > THRESHOLD)


@pytest.mark.parametrize("kind", HEADS)
def test_both_students_train_as_in_a_plain_loop(kind: str) -> None:
    model = plain_loop.model(HEADS[kind])
    own = signal(model)
    networks = (model, own.peer.network)
    begun = [[own_module(network, replica).train() for network in networks] for replica in (0, 1)]
    weights = [[head.weights[0][replica].detach().clone().requires_grad_() for head in own.heads] for replica in (0, 1)]
    losses = plain_loop.together(own, model, IMAGES, sgd=plain_networks.sgd())
    for replica, (students, heads) in enumerate(zip(begun, weights, strict=True)):
        spelled = Spelled(students, heads)
        expected = plain_networks.alone(students, model.heads, IMAGES, replica, heads, spelled)
        for network, student, found, head in zip(networks, students, own.heads, heads, strict=True):
            torch.testing.assert_close(network.theta[replica], flat(student).detach(), rtol=1e-9, atol=1e-9)
            torch.testing.assert_close(found.weights[0][replica], head, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(losses[:, replica], expected, rtol=1e-9, atol=1e-9, equal_nan=True)
        assert spelled.met["unstable"]
        assert spelled.met["less stable"]


def test_one_sure_view_is_enough_if_both_say_the_same_class() -> None:
    sure, unsure, otherwise = (torch.tensor([[row]], dtype=torch.float64) for row in ([3.0, 0], [0.1, 0], [0, 3.0]))
    assert Answers(sure, sure, unsure).stable(0.8).tolist() == [[True]]
    assert Answers(unsure, unsure, sure).stable(0.8).tolist() == [[True]]
    assert Answers(unsure, unsure, unsure).stable(0.8).tolist() == [[False]]
    assert Answers(sure, sure, otherwise).stable(0.8).tolist() == [[False]]


def test_the_leader_is_not_led() -> None:
    sure, unsure = (torch.tensor([[row]], dtype=torch.float64) for row in ([3.0, 0], [0.1, 0]))
    leader, led = Answers(sure, sure, sure), Answers(unsure, unsure, unsure)
    assert not leader.imitation(led, 0.8).any()
    expected = (unsure.softmax(-1) - sure.softmax(-1)).square().mean(-1)
    torch.testing.assert_close(led.imitation(leader, 0.8), expected)


def test_classes_that_do_not_exist_do_not_count() -> None:
    heads = HEADS["classes seen"]
    z = heads.columns(torch.tensor([[[3.0, 1, 2, 0, 0, 0]]]), 0)
    assert apart(z, heads.columns(torch.zeros(1, 1, 6), 0), z).tolist() == [[5.0]]


def test_published_constants_are_defaults() -> None:
    own = DualStudentSpec(name="dual-student")
    assert (own.consistency, own.stabilisation, own.threshold, own.distance) == (10, 100, 0.8, 0.01)
    assert own.ramp == 5 / 300
    assert build.views(own).count == 2
