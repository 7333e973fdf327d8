import pytest
import torch
from torch import Tensor

from gradcast.core import Metrics
from gradcast.learners.registry import LEARNERS
from gradcast.signals.contrastive import ContrastiveSpec
from gradcast.signals.predicted import PredictedSpec
from gradcast.signals.registry import SIGNALS
from gradcast.specs import build
from gradcast.specs.spec import Setting
from gradcast.specs.text import load
from tests.helpers import OPTIONS, signal_and_pool
from tests.training.scene import shared

pytestmark = pytest.mark.usefixtures("known_passes")
TWO_TASKS = (
    "stream.tasks=2", "stream.samples=40", "learner.memory=12", "model.hidden=[12]", "model.norm=batch",
    "policy.p=0.5", "policy.batch=6",
)  # fmt: skip
OWN_NETWORK = [name for name, entry in LEARNERS.items() if "own-network" in entry.traits]
STEPPING = [name for name in LEARNERS if name not in (*OWN_NETWORK, "python")]
NAMES = sorted(SIGNALS.keys() - {"none", "python"})
WITHOUT_MEMORY = [name for name, entry in LEARNERS.items() if "memory" not in entry.table.model_fields]
FURTHER = {
    "icarl": ["learner.memory=40", "learner.batchnorm=frozen"],  # exemplars of all classes, which pass alone
    "bic": ["learner.memory=20", "stream.samples=50", "model.heads=masked"],  # ten images of a task are set aside
    "icarl-original": ["model.heads=masked"],
    "lucir": ["model.heads=masked"],
    "cfa": ["model.heads=masked"],
    "x-der": ["model.heads=masked", "learner.images=8"],
}


class Seen:
    """The metrics of every step, and the last accuracies."""

    def __init__(self) -> None:
        self.steps: list[Metrics] = []
        self.accuracy = torch.zeros(0)

    def stepped(self, step: int, task: int, metrics: Metrics) -> None:
        self.steps.append(metrics)

    def trained(self, task: int) -> None:
        pass

    def evaluated(self, tasks_done: int, accuracy: Tensor, unknown: Tensor | None = None) -> None:
        self.accuracy = accuracy


def trained(setting: Setting, seeds: list[int]) -> Seen:
    seen = Seen()
    shared().loop(setting, seeds).run([seen])
    return seen


# Every learner with one signal, every signal with one learner; the guard needs memories that constrain.
PAIRS = [
    (name, learner, guard)
    for name in (*NAMES, *OPTIONS)
    for learner in STEPPING
    for guard in ((False, True) if learner in ("gem", "dcl", "a-gem") else (False,))
    if learner == "er" or name == "predicted" or (guard and learner == "gem")
]


@pytest.mark.parametrize(("name", "learner", "guard"), PAIRS)
def test_signals_with_learners(name: str, learner: str, guard: bool) -> None:
    """Two tasks, two replicas, BatchNorm; every replica trains as it would alone."""
    common = [each for each in TWO_TASKS if learner not in WITHOUT_MEMORY or "memory" not in each]
    changes = [*signal_and_pool(name), f"learner.name={learner}", f"policy.guard={str(guard).lower()}"]
    setting = load("digits", [*common, *changes, *FURTHER.get(learner, [])]).rows[1].setting
    together, alone = trained(setting, [0, 1]), trained(setting, [1])
    assert together.accuracy.shape == (2, 2)
    both, own = (torch.stack([metrics["loss"][-1] for metrics in seen.steps]) for seen in (together, alone))
    torch.testing.assert_close(both, own, rtol=1e-3, atol=1e-4)
    used = [metrics for metrics in together.steps if metrics["unlabelled"][0]]
    assert 0 < len(used) < len(together.steps) == 8
    assert all(metrics["unlabelled"][0] == 6 for metrics in used)
    assert all(metrics["agreement"][0].isfinite() and metrics["pseudo_ratio"][0].isfinite() for metrics in used)


def test_contrastive_wants_two_views_of_its_own_making() -> None:
    found = build.views(ContrastiveSpec(name="contrastive", augment=["flip", "crop"]))
    assert (found.count, [step.name for step in found.steps]) == (2, ["flip", "crop"])
    assert build.views(PredictedSpec(name="predicted")).count == 1


def words(*settings: str) -> str:
    (own,) = load("digits", [change for each in settings for change in each.split(",")]).rows[1].setting.signal
    return SIGNALS[own.name].describe(own)


@pytest.mark.parametrize("name", [name for name in SIGNALS if name != "python"])
def test_every_signal_is_described(name: str) -> None:
    assert bool(words(*signal_and_pool(name))) == (name != "none")
    assert SIGNALS[name].about.endswith((".", ";", ")")) or name in ("one-hot", "soft", "predicted")


def test_labels_tell_signals_apart() -> None:
    names = ["predicted", "noise", "one-hot", "soft"]
    labels = [words(f"signal.name={name}", *(["signal.scaled=true"] if name != "predicted" else [])) for name in names]
    scaled = [f"{kind} pseudo labels, scaled" for kind in ("one-hot", "soft")]
    assert labels == ["predicted gradients", "random directions", *scaled]
    assert words("signal.name=one-hot") == "one-hot pseudo labels"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (OPTIONS[1], "meta-gradient, mix-up"),
        ("one-hot,signal.protected=true", "one-hot pseudo labels, protected teacher"),
        (
            "soft,signal.outputs=seen,signal.scaled=true,model.heads=masked",
            "soft pseudo labels, scaled, all classes seen",
        ),
        ("vat,signal.entropy=1.0", "VAT, entropy"),
        ("tnar,signal.normalise=length", "TNAR, by length"),
        ("true-labels,signal.scaled=true,pool.name=held-out", "true labels, scaled"),
    ],
)
def test_options_that_change_what_a_signal_does_are_named(settings: str, expected: str) -> None:
    assert words(*signal_and_pool(settings)) == expected
