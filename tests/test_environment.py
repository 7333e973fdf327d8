import pytest
import torch

from gradcast.environment import choose_device, describe, use_threads
from gradcast.errors import GradcastError


def test_auto_takes_what_is_there() -> None:
    assert choose_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
    assert choose_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize("name", ["warp", "cuda:99"])
def test_unusable_devices_are_explained(name: str) -> None:
    with pytest.raises(GradcastError, match=f"device '{name}' cannot be used .*--device cpu"):
        choose_device(name)


def test_threads_are_set_on_purpose() -> None:
    before = torch.get_num_threads()
    assert use_threads(1) == torch.get_num_threads() == 1
    assert use_threads(None) >= 1
    torch.set_num_threads(before)


def test_description_names_what_may_explain_a_difference() -> None:
    found = describe(torch.device("cpu"))
    assert found["device"] == "cpu"
    assert isinstance(found["versions"], dict)
    assert (
        found["versions"]["torch"] == torch.__version__.partition("+")[0]
        or found["versions"]["torch"] == torch.__version__
    )
    assert set(found) == {"versions", "commit", "platform", "device", "threads"}
