import pytest
import torch

from gradcast.errors import GradcastError
from gradcast.gradients.logit_shapes import check_labelled, check_logits

Z = torch.zeros(2, 6, 4)
Y = torch.zeros(2, 6, dtype=torch.long)


def test_what_belongs_together_passes() -> None:
    assert check_logits(Z, (2,), 4) is None
    assert check_logits(Z, (), 4) is None  # one learner, two batches
    assert check_labelled(Z, None, Y, (2,), 4) is None
    assert check_labelled(Z, Z, Y, (2,), 4) is None


@pytest.mark.parametrize(
    ("z", "replicas", "sentence"),
    [
        (torch.zeros(4), (), r"the logits have the shape \[4\]; give \[batch, 4\]"),
        (torch.zeros(6, 5), (), r"shape \[6, 5\]; give \[batch, 4\]"),
        (torch.zeros(6, 4), (2,), r"shape \[6, 4\]; give \[2, batch, 4\]"),
        (torch.zeros(3, 6, 4), (2,), r"shape \[3, 6, 4\]; give \[2, batch, 4\]"),
        (torch.zeros(0, 4), (), "empty batch; give at least one row"),
        (torch.zeros(6, 4, dtype=torch.long), (), "int64; give floating-point numbers"),
    ],
)
def test_wrong_logits_are_named_with_the_remedy(z: torch.Tensor, replicas: tuple[int, ...], sentence: str) -> None:
    with pytest.raises(GradcastError, match=sentence):
        check_logits(z, replicas, 4)


def test_wrong_gradients_and_labels_are_named_with_the_remedy() -> None:
    with pytest.raises(GradcastError, match=r"dz has the shape \[2, 6\] and z has \[2, 6, 4\].*or None"):
        check_labelled(Z, Z[..., 0], Y, (2,), 4)
    with pytest.raises(GradcastError, match=r"labels have the shape \[2, 6, 4\]; give one label a row of z: \[2, 6\]"):
        check_labelled(Z, None, Z.long(), (2,), 4)
    with pytest.raises(GradcastError, match=r"float32; give whole numbers \(torch.long\)"):
        check_labelled(Z, None, Y.float(), (2,), 4)
