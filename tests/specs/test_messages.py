import pytest
from pydantic import ValidationError

from gradcast.specs.messages import explain, fields
from gradcast.specs.spec import Setting


@pytest.mark.parametrize(
    ("tables", "sentence"),
    [
        (
            {"learner": {"name": "gem", "memroy": 3}},
            "unknown key 'learner.memroy' (learner 'gem'); did you mean 'learner.memory'?",
        ),
        ({"signal": [{"name": "none"}, {"name": "sotf"}]}, "signal.name = 'sotf' is unknown; did you mean 'soft'?"),
        ({"pool": {"name": "folder"}}, "pool.path is missing; set it, as in --set pool.path=VALUE"),
        (
            {"stream": {"scenario": "turned"}},
            "stream.scenario = 'turned' is not valid; it must be 'rotated', 'permuted', 'split' or 'own'",
        ),
        (
            {"schedule": {"name": "steps", "steps": 5}},
            "the learning rate drops after step 300000, but there are 5 steps; lower schedule.milestones, or leave "
            "some out",
        ),
    ],
)
def test_one_sentence_names_the_key_and_the_remedy(tables: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Setting.model_validate(tables)
    assert explain(caught.value) == sentence


def test_keys_of_a_choice_and_of_a_plain_table() -> None:
    assert "memory" in fields("learner", "gem")
    assert "p" in fields("policy", None)
