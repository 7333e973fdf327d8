from collections.abc import Callable

from gradcast.sweeps.trial_display import Progress, TrialDisplay
from gradcast.training.loop import Extent


class Counter:
    """A display that counts."""

    def __init__(self) -> None:
        self.told: list[tuple[float, str]] = []

    def counter(self, what: str, total: int) -> Callable[[float, str], None]:
        assert (what, total) == ("trials", 2)
        return lambda done, note: self.told.append((done, note))


def test_one_line_counts_trials_and_tells_the_best() -> None:
    shown = Counter()
    progress = Progress(shown, 2)
    progress.part(0.5)
    progress.one_more(0.123)
    assert shown.told == [(0.0, ""), (0.5, ""), (1, "best 12.3 %")]
    Progress(None, 2).part(0.5)  # nobody looks


def test_a_trial_is_watched_and_shows_nothing_itself() -> None:
    shares = list[float]()
    display = TrialDisplay(shares.append, None)
    display.note("a sentence")
    display.skipped("a row")
    assert list(display.track([1, 2], "images", 2)) == [1, 2]
    display.row("a row", Extent((2,))).stepped(0, 0, {})
    assert shares == [0.5]
