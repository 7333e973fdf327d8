import pytest
import torch
from gradcast.semi.signalled import Signalled

from gradcast.gradients.length import Length
from gradcast.randomness import torch_generator
from gradcast.signals.noise import Noise
from gradcast.signals.predicted import Predicted
from gradcast.signals.pseudo_labels import PseudoLabels
from tests.semi.scene import learner, moment, small_model


@pytest.mark.parametrize("ramped", [True, False])
def test_a_signals_gradient_at_the_logits_with_its_weight(ramped: bool) -> None:
    model = small_model()
    at, signal = moment(model, weight=0.25), PseudoLabels(small_model(first_seed=5), soft=True)
    part, z = Signalled(signal, ramped=ramped), torch.randn(2, 4, 3, dtype=torch.float64)
    slopes, _ = part.slopes(at, z)
    says = signal.teacher.forward(at.unlabelled.x, 0, statistics="frozen").z.softmax(-1)
    torch.testing.assert_close(slopes, (0.25 if ramped else 1.0) * (z.softmax(-1) - says) / 4)
    assert part.networks() == (signal.teacher,)
    assert part.state().keys() == signal.state().keys()


def test_a_signal_sees_the_view_that_the_model_trains_on() -> None:
    """A mean teacher wants two views of each image; whatever stands beside it wants one."""
    model = small_model()
    at, noise = moment(model, views=2), Noise(3, [torch_generator(r, "directions") for r in range(2)])
    labels = PseudoLabels(small_model(first_seed=5), soft=True)
    for signal in (labels, noise):
        part = Signalled(signal, ramped=False)
        part.prepare(at.unlabelled, 1)
        z = torch.randn(2, 4, 3, dtype=torch.float64)
        slopes, _ = part.slopes(at, z)
        if signal is labels:
            assert part.label is not None
            assert torch.equal(part.label, labels.teacher.forward(at.x, 0, statistics="frozen").z.softmax(-1))
            assert "label_accuracy" not in part.watch(at)
            slopes, _ = part.slopes(at, z)
            says = labels.teacher.forward(at.unlabelled.x[:, :4], 0, statistics="frozen").z.softmax(-1)
            torch.testing.assert_close(slopes, (z.softmax(-1) - says) / 4)
        assert slopes.shape == z.shape
        assert (part.label is None) == (signal is noise)


def test_signals_watch_the_labelled_batch_by_running_statistics() -> None:
    model = small_model()
    at, h, same = moment(model), learner(2), learner(2)
    told = Signalled(Predicted(h), ramped=False).watch(at)
    z = model.forward(at.batch.x, 0, statistics="frozen").z
    dz = (z.softmax(-1) - torch.nn.functional.one_hot(at.batch.y, 3)) / 4
    seen = same.learn(z, dz, at.batch.y, eta=0.1)
    torch.testing.assert_close(told["tau"], seen.tau)
    torch.testing.assert_close(h.weights[0], same.weights[0])


def test_the_control_draws_before_every_step() -> None:
    signal = Noise(3, [torch_generator(r, "directions") for r in range(2)], length=Length(0.5))
    at, part, found = moment(small_model()), Signalled(signal, ramped=False), []
    for step in (1, 2):
        part.prepare(at.unlabelled, step)
        tau = part.watch(at)["tau"]
        found.append(part.slopes(at, torch.zeros(2, 4, 3, dtype=torch.float64))[0])
    torch.testing.assert_close(found[0].norm(dim=-1), (0.5 * tau).unsqueeze(1).expand(2, 4))
    assert not torch.allclose(found[0], found[1])
