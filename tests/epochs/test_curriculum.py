import pytest
from gradcast.epochs.curriculum import Curriculum

from gradcast.devices import Place
from gradcast.errors import GradcastError
from gradcast.streams.scale import Scale
from tests.epochs.scene import PLACE, source


def curriculum(tasks: int = 2, validation: float = 0.2, place: Place = PLACE) -> Curriculum:
    return Curriculum(source(10), range(tasks), 3, validation, Scale(), "digest")


def test_it_knows_of_its_lessons_before_they_are_made() -> None:
    own = curriculum()
    lessons = own.lessons([3, 4], PLACE)
    assert own.count(0) == own.count(1) == lessons.count == 24
    assert own.shape == (1, 12, 12)
    facts = own.describe()
    assert facts["labelled_images"] == [24, 24]
    assert facts["validation_images"] == lessons.held == 6
    assert facts["class_order"] == "numpy.random.RandomState(seed).permutation(10)"


def test_nothing_in_the_description_depends_on_the_seeds() -> None:
    own = curriculum()
    before = own.describe()
    own.lessons([7], PLACE)
    assert own.describe() == before


@pytest.mark.parametrize(("tasks", "validation", "words"), [(4, 0.2, "need 12 classes"), (2, 0.01, "0 to validate")])
def test_what_cannot_be_cut_is_refused(tasks: int, validation: float, words: str) -> None:
    with pytest.raises(GradcastError, match=words):
        curriculum(tasks, validation).count(0)
