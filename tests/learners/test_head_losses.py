import torch
from torch.nn.functional import cross_entropy

from gradcast.core import Replay
from gradcast.learners.head_losses import later_margin, past_loss, transplanted, unused_contrast
from gradcast.replicas.heads import Heads
from gradcast.signals.contrastive import contrast

HEADS = Heads.of([(0, 1), (2, 3), (4,), (5, 6)], "seen")


def edited(old: list[float], new: list[float], label: int, first: int, gamma: float = 0.5) -> list[float]:
    columns = torch.arange(len(old)) >= first
    label_ = torch.tensor([[label]])
    made = transplanted(torch.tensor([[old]]), torch.tensor([[new]]), label_, columns, gamma)
    found: list[float] = made[0, 0].tolist()
    return found


def test_smaller_logits_are_transplanted_as_they_are() -> None:
    assert edited([4.0, 1.0, 0.0, 0.0], [9.0, 9.0, 3.0, -2.0], 0, 2) == [4.0, 1.0, 3.0, -2.0]
    assert edited([4.0, 1.0, 0.0, 0.0], [9.0, 9.0, 4.0, -2.0], 0, 2) == [4.0, 1.0, 4.0, -2.0]  # as large as its own


def test_larger_logits_are_multiplied_until_the_largest_is_a_share_of_the_own_one() -> None:
    assert edited([4.0, 1.0, 0.0, 0.0], [9.0, 9.0, 8.0, -2.0], 0, 2) == [4.0, 1.0, 2.0, -0.5]
    assert edited([4.0, 1.0, 7.0, 7.0], [9.0, 9.0, 0.5, 4.0], 1, 2, gamma=0.75) == [4.0, 1.0, 0.09375, 0.75]


def test_beside_an_own_logit_that_is_not_positive_they_are_moved_down_instead() -> None:
    assert edited([-1.0, 1.0, 0.0, 0.0], [9.0, 9.0, 0.001, -2.0], 0, 2)[2] == -1.0
    assert edited([0.0, 1.0, 0.0, 0.0], [9.0, 9.0, 3.0, 1.0], 0, 2) == [0.0, 1.0, 0.0, -2.0]
    assert edited([-2.0, 1.0, 0.0, 0.0], [9.0, 9.0, -3.0, -4.0], 0, 2) == [-2.0, 1.0, -3.0, -4.0]


def test_where_no_column_is_chosen_nothing_changes() -> None:
    assert edited([-1.0, 1.0], [9.0, 9.0], 0, 2) == [-1.0, 1.0]


def test_every_unused_head_counts_equally_however_wide() -> None:
    z, who = torch.randn(2, 6, 7, generator=torch.Generator().manual_seed(0)), torch.tensor([[0, 1, 0, 1, 2, 2]] * 2)
    expected = [contrast(z[..., columns], who, 3.0) for columns in (slice(2, 4), slice(4, 5), slice(5, 7))]
    torch.testing.assert_close(unused_contrast(HEADS, z, who, 0, 3.0), torch.stack(expected).mean(0))
    torch.testing.assert_close(unused_contrast(HEADS, z, who, 2, 3.0), expected[2])
    even = Heads.even(2, 3, masked=True)
    both = torch.stack([contrast(z[..., columns], who, 3.0) for columns in (slice(2, 4), slice(4, 6))]).mean(0)
    torch.testing.assert_close(unused_contrast(even, z, who, 0, 3.0), both)


def test_a_head_whose_classes_are_all_known_already_is_not_unused() -> None:
    heads = Heads.of([(0, 1), (1, 0), (2, 3)], "seen")
    z, who = torch.randn(1, 4, 4, generator=torch.Generator().manual_seed(0)), torch.tensor([[0, 1, 0, 1]])
    torch.testing.assert_close(unused_contrast(heads, z, who, 0, 1.0), contrast(z[..., 2:], who, 1.0))


def test_the_own_head_is_held_above_later_ones() -> None:
    z = torch.tensor([[[3.0, 1.0, 0.0, 9.0, 2.5, 0.0, 0.0], [9.0, 0.0, 1.0, 2.0, 1.0, 4.0, 0.0]]])
    tasks, weight = torch.tensor([[0, 1]]), torch.tensor([[1.0, 1.0]])
    found = later_margin(HEADS, z, tasks, weight, task=1, margin=1.0)
    assert found.item() == (0.5 + 3.0) / 2  # 2.5 + 1 - 3 and 4 + 1 - 2
    assert later_margin(HEADS, z, tasks, torch.tensor([[1.0, 0.0]]), task=1, margin=1.0).item() == 0.5
    assert later_margin(HEADS, z, tasks, weight, task=1, margin=0.0).item() == 2.0 / 2


def test_replayed_images_choose_among_past_heads_or_within_their_own() -> None:
    z, tasks = torch.randn(1, 2, 7, generator=torch.Generator().manual_seed(0)), torch.tensor([[0, 1]])
    seen = past_loss(HEADS, z, Replay(z, torch.tensor([[1, 2]]), tasks), 2)
    torch.testing.assert_close(seen[0], cross_entropy(z[0, :, :4], torch.tensor([1, 2])))
    masked = Heads.of(HEADS.task_columns, "masked")
    own = past_loss(masked, z, Replay(z, torch.tensor([[1, 0]]), tasks), 2)
    rows = torch.stack([z[0, 0, :2], z[0, 1, 2:4]])
    torch.testing.assert_close(own[0], cross_entropy(rows, torch.tensor([1, 0])))
