import torch

from gradcast.batches import Batch, Preview, Unlabelled
from gradcast.gradients.cross_entropy import cross_entropy
from tests.helpers import batch, replicas


def test_only_images_that_come_for_the_first_time_are_fresh() -> None:
    x, y = torch.rand(2, 4, 3), torch.zeros(2, 4, dtype=torch.long)
    whole = Batch(x, y, 1)
    assert whole.fresh is whole
    some = Batch(x, y, 1, repeated=3).fresh
    assert some is not None
    assert torch.equal(some.x, x[:, :1])
    assert Batch(x, y, 1, repeated=4).fresh is None


def test_a_memory_stores_images_once_or_in_every_epoch_but_never_for_a_further_update() -> None:
    x, y = torch.rand(2, 4, 3), torch.zeros(2, 4, dtype=torch.long)
    later = Batch(x, y, 1, repeated=4)
    assert later.to_store(every=False) is None
    assert later.to_store(every=True) is later
    assert Batch(x, y, 1, repeated=4, again=True).to_store(every=True) is None


def test_images_may_have_tasks_of_their_own() -> None:
    x, y = torch.rand(1, 2, 3), torch.zeros(1, 2, dtype=torch.long)
    assert Batch(x, y, 5).each_task.tolist() == [[5, 5]]
    assert Batch(x, y, 5, tasks=torch.tensor([[3, 5]])).each_task.tolist() == [[3, 5]]


def test_views_lie_one_after_another() -> None:
    images = Unlabelled(torch.arange(8.0).view(1, 4, 2), torch.tensor([True]), views=2)
    assert images.images == 2
    assert images.first_view().x.tolist() == [[[0, 1], [2, 3]]]


def test_replicas_that_have_stopped_use_no_images() -> None:
    images = Unlabelled(torch.rand(3, 2, 2), torch.tensor([True, False, True]))
    left = images.only(torch.tensor([False, True, True]))
    assert left.used.tolist() == [False, False, True]
    assert list(left.drawn_by()) == [2]


def test_a_preview_makes_a_pass_once_and_in_evaluation_mode() -> None:
    model = replicas(2, norm="batch")
    before = {name: buffer.clone() for name, buffer in model.buffers.items()}
    data = batch(model)
    preview = Preview(model, data, Unlabelled(batch(model, seed=1).x, torch.tensor([True, True])), 0.1)
    made, dz = preview.labelled_pass
    assert preview.labelled_pass[0] is made
    assert preview.excursion is preview.excursion
    torch.testing.assert_close(dz, cross_entropy(made.z, data.y)[1])
    assert all(torch.equal(before[name], buffer) for name, buffer in model.buffers.items())
