from typing import Literal

from gradcast.learners.learner_entry import LearnerEntry, learner_entry
from gradcast.learners.learner_table import LearnerTable


class Mine(LearnerTable):
    """Learns by itself."""

    name: Literal["mine", "own"]


def test_a_learner_trains_the_models_network_by_plain_steps_unless_it_says_otherwise() -> None:
    found = learner_entry(Mine, lambda table, context: None, "mine", "nothing", "memory")
    assert isinstance(found, LearnerEntry)
    assert (found.names, found.traits, found.about) == (("mine", "own"), {"memory"}, "Learns by itself.")
    assert (found.network, found.heads, found.trainer) == (None, None, None)
    assert found.recalled(Mine(name="own"), 3, 10) == (0, 0)


def test_it_may_say_what_is_recalled() -> None:
    found = learner_entry(
        Mine, lambda table, context: None, "mine", "nothing", recalled=lambda table, past, batch: (past * batch, past)
    )
    assert found.recalled(Mine(name="own"), 3, 10) == (30, 3)
