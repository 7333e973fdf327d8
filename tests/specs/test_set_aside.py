from gradcast.specs import build_stream
from gradcast.specs.set_aside import held, of_every_class, validation_share
from gradcast.specs.text import load
from tests.specs.test_build import SHELF


def test_a_schedule_sets_a_share_aside_and_a_learner_some_of_every_class() -> None:
    digits = ["stream.scenario=split", "stream.tasks=2", "stream.classes_per_task=2", "stream.samples=all"]
    found = load("digits", [*digits, "learner.name=bic", "learner.memory=45"]).rows[0].setting
    stream = build_stream.stream(found.stream, SHELF)
    assert (validation_share(found), of_every_class(found, stream), held(found, stream, 1)) == (0.0, 2, 4)
    plain = load("digits", digits).rows[0].setting
    assert held(plain, stream, 0) == 0
    again = load("digits", [*digits, "learner.name=bic", "schedule.validation=0.25"]).rows[0].setting
    assert held(again, stream, 0) == int(0.25 * stream.count(0)) > 4
