import pytest

from gradcast.errors import GradcastError
from gradcast.specs import own_networks
from gradcast.specs.text import load


@pytest.mark.parametrize("learner", ["independent", "multimodal"])
def test_learners_with_networks_of_their_own_take_them_as_they_are(learner: str) -> None:
    fits = load("digits", [f"learner.name={learner}"]).rows[0].setting
    assert own_networks.own_network(fits) is None
    for change in ("model.name=conv-large", "model.perturbation=0.1", "model.rates={head=0.5}"):
        with pytest.raises(GradcastError, match=f"the learner '{learner}' makes its networks of model.name = 'mlp'"):
            load("digits", [f"learner.name={learner}", change])


@pytest.mark.parametrize(
    ("signal", "message"),
    [
        ("distil", "compares one network's heads of all tasks"),
        ("mean-teacher", "has parts of it for each task"),
        ("soft", "has parts for each task"),
        ("dual-student", "trains a second network like the model"),
        ("co-training", "trains a second network like the model"),
    ],
)
def test_signals_that_need_one_network_are_refused(signal: str, message: str) -> None:
    with pytest.raises(GradcastError, match=message):
        load("digits", ["learner.name=independent", f"signal.name={signal}"])


@pytest.mark.parametrize("signal", ["vat", "tnar"])
def test_signals_that_change_images_see_no_labelled_ones_behind_them(signal: str) -> None:
    acl = ["learner.name=acl", "model.name=alexnet-like", "stream.size=12", "policy.batch=10", f"signal.name={signal}"]
    with pytest.raises(GradcastError, match=f"the signal '{signal}' changes unlabelled images") as caught:
        load("digits", acl)
    assert "\n" not in str(caught.value)
    other = load("digits", [*acl, "learner.private_input=unlabelled"]).rows[1].setting
    assert own_networks.images_alone(other) is None
