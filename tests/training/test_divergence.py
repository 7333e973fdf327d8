import warnings

import pytest
import torch

from gradcast.errors import Diverged
from gradcast.runs.checkpoint.state import pack, restore
from gradcast.training.divergence import CHECKED, HOPELESS, FiniteCheck

GOOD, BAD = torch.tensor([True, True]), torch.tensor([True, False])


def check() -> FiniteCheck:
    return FiniteCheck([3, 8], "be gentle")


def test_it_looks_after_so_many_steps_and_names_the_first_bad_one() -> None:
    own = check()
    for step in range(CHECKED - 1):
        own.add(step, BAD if step >= 7 else GOOD, 2, skips=False)
    with pytest.raises(Diverged, match=r"not finite at step 7 \(task 2, seed 8\): training diverged; be gentle"):
        own.add(CHECKED - 1, GOOD, 2, skips=False)


def test_it_looks_as_seldom_as_it_is_told_and_a_single_task_has_no_number() -> None:
    own = FiniteCheck([3, 8], "be gentle", every=CHECKED + 5)
    for step in range(CHECKED + 4):
        own.add(step, BAD, skips=False)
    with pytest.raises(Diverged, match=r"at step 0 \(seed 8\): training diverged"):
        own.add(CHECKED + 4, GOOD, skips=False)
    assert FiniteCheck([3], "", every=1).every == CHECKED


def test_good_steps_are_forgotten_once_seen() -> None:
    own = check()
    own.add(0, GOOD, 0, skips=False)
    own.look(0, skips=False)
    assert own.waiting == []
    own.look(0, skips=False)
    own.add(5, BAD, 0, skips=False)
    with pytest.raises(Diverged, match="at step 5"):
        own.look(0, skips=False)


def test_undone_steps_are_counted_until_there_is_no_hope() -> None:
    own = check()
    for step, finite in enumerate([GOOD, BAD, GOOD]):
        own.add(step, finite, 0, skips=True)
    with pytest.warns(UserWarning, match=r"step 1 .*: 1 of the latest 6 steps were undone"):
        own.look(0, skips=True)
    for step in range(HOPELESS):
        own.add(step, BAD, 0, skips=True)
    with pytest.raises(Diverged, match="training diverged"):
        own.look(0, skips=True)


def test_the_error_names_every_seed_that_is_lost() -> None:
    own = check()
    own.add(0, BAD, 0, skips=False)
    with pytest.raises(Diverged) as caught:
        own.look(0, skips=False)
    assert caught.value.seeds == [8]


@pytest.mark.parametrize("interval", [1, 3, 5, CHECKED])
def test_steps_on_end_are_counted_whatever_the_interval_of_looks(interval: int) -> None:
    own = check()

    def train() -> None:
        for step in range(100):
            own.add(step, BAD if step >= 4 else GOOD, 0, skips=True)
            if (step + 1) % interval == 0:
                own.look(0, skips=True)

    with warnings.catch_warnings(action="ignore"), pytest.raises(Diverged) as caught:
        train()
    assert caught.value.seeds == [8]
    assert own.undone[1] >= HOPELESS
    assert own.on_end[0] == 0


def test_fewer_on_end_are_undone_and_their_share_is_known() -> None:
    own = check()
    with warnings.catch_warnings(action="ignore"):
        for step in range(40):
            own.add(step, GOOD if step % HOPELESS == 0 else BAD, 0, skips=True)
        own.look(0, skips=True)
    assert own.shares() == {3: 0.0, 8: 0.9}


def test_counts_survive_an_interruption() -> None:
    own, tensors = check(), dict[str, torch.Tensor]()
    for step in range(HOPELESS - 1):
        own.add(step, BAD, 0, skips=True)
    with pytest.warns(UserWarning, match="were undone"):
        own.look(0, skips=True)
    later = check()
    restore(later, pack(own, tensors), tensors, torch.device("cpu"))
    later.add(HOPELESS, BAD, 0, skips=True)
    with pytest.raises(Diverged, match="training diverged"):
        later.look(0, skips=True)
