from gradcast.specs.differences import NONE, differing
from gradcast.specs.spec import Setting
from gradcast.specs.text import load


def setting(*settings: str) -> Setting:
    return load("digits", settings).rows[0].setting


def test_only_what_differs_is_named_with_its_values() -> None:
    assert differing([setting(), setting()]) == {}
    found = differing([setting(), setting("learner.lr=0.05", "stream.tasks=3"), setting("stream.path=")])
    tasks, lr = str(setting().stream.tasks), str(setting().learner.lr)
    assert found == {"stream.tasks": [tasks, "3", tasks], "learner.lr": [lr, "0.05", lr]}


def test_a_key_that_one_of_them_lacks_has_no_value_there() -> None:
    found = differing([setting(), setting("learner.name=er")])
    assert found["learner.name"] == ['"gem"', '"er"']
    assert found["learner.margin"][1] == NONE
    assert found["learner.replay"][0] == NONE


def test_of_several_pools_each_has_its_number() -> None:
    pools = ('pool=[{name = "grey"}, {name = "patches", count = 30}]', 'pool=[{name = "grey"}, {name = "patches"}]')
    assert list(differing([setting(own) for own in pools])) == ["pool.1.count"]
