from gradcast.results.quick import QUICK_LOOK, mark
from tests.trained_runs import small


def test_runs_that_say_so_in_their_title_are_quick_looks() -> None:
    assert mark(small(f'title="{QUICK_LOOK}: digits"')) == QUICK_LOOK
    assert mark(small('title="a quick look"')) == mark(small()) == ""
