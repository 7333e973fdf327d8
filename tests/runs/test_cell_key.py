from gradcast.runs.cell_key import RESULTS, cell_key, digest, in_a_word
from gradcast.specs.spec import Setting
from gradcast.specs.text import load


def setting(*settings: str, row: str = "predicted") -> Setting:
    (found,) = (own.setting for own in load("digits", settings).rows if own.name == row)
    return found


def name(*settings: str, row: str = "predicted", source: str = "a", skips: bool = False) -> str:
    return cell_key(setting(*settings, row=row), "float32", {"source": source}, skips=skips).name


def test_what_decides_the_result_is_in_the_name_and_what_does_not_is_not() -> None:
    assert name() == name("seeds=[5]") == name("title=other")
    others = [name("learner.lr=0.2"), name(source="b"), name(skips=True), name("policy.p=0.3"), name(row="base")]
    assert len({name(), *others}) == 6
    assert cell_key(setting(), "float64", {"source": "a"}).name != name()
    assert name(row="base") == name("policy.p=0.3", row="base") == name("pool.count=7", row="base")
    assert in_a_word(setting()) == "digits-gem-predicted"


def test_paths_of_data_decide_nothing_that_their_digests_do_not() -> None:
    own = ["stream.source=npz", "stream.scenario=split", "stream.tasks=2", "stream.samples=all"]
    assert name(*own, "stream.path=a.npz") == name(*own, "stream.path=b.npz")


def test_a_digest_does_not_depend_on_the_order_of_keys() -> None:
    facts = setting().model_dump()
    assert digest(facts) == digest({table: facts[table] for table in reversed(facts)})
    assert digest(facts) != digest(facts | {"policy": {}})


def test_facts_say_which_results_of_the_package_they_are_of() -> None:
    assert cell_key(setting(), "float32", {}).facts["results"] == RESULTS
