import torch

from gradcast.runs.environment import describe


def test_description_names_what_may_explain_a_difference() -> None:
    found = describe(torch.device("cpu"))
    assert found["device"] == "cpu"
    assert isinstance(found["versions"], dict)
    assert (
        found["versions"]["torch"] == torch.__version__.partition("+")[0]
        or found["versions"]["torch"] == torch.__version__
    )
    assert set(found) == {"versions", "commit", "platform", "device", "threads"}
