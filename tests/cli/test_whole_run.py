import pytest
from rich.progress import Task, TaskID

from gradcast.cli.whole_run import TimeLeft, WholeRun, seconds_left


def test_rows_count_in_parts() -> None:
    run = WholeRun(["GEM", "DCL"])
    first = run.begin("GEM")
    assert first is not None
    run.move(first, 0.25)
    assert (run.total, run.done, run.finished) == (2, 0.25, 0)
    run.move(first, 1.0)
    assert (run.done, run.finished) == (1.0, 1)


def test_what_was_not_planned_counts_nothing() -> None:
    run = WholeRun(["GEM", "DCL"])
    assert run.begin("head start") is None
    assert (run.total, run.done) == (2, 0.0)


def test_rows_of_one_name_are_several() -> None:
    run = WholeRun(["GEM", "GEM"])
    parts = [run.begin("GEM") for _ in range(2)]
    assert parts == [("GEM", 1), ("GEM", 2)]
    run.move(("GEM", 1), 1.0)
    assert run.done == 1.0


def test_a_row_that_begins_again_starts_over() -> None:
    run = WholeRun(["GEM", "DCL"])
    run.begin("GEM")
    run.move(("GEM", 1), 0.5)
    assert run.begin("GEM") == ("GEM", 1)
    assert (run.total, run.done) == (2, 0.0)


def test_a_row_that_needs_no_training_is_left_out() -> None:
    run = WholeRun(["GEM", "DCL"])
    for label in ("DCL", "DCL", "other"):
        run.leave_out(label)
    assert run.total == 1
    assert run.begin("DCL") is None


@pytest.mark.parametrize("labels", [[], ["GEM"]])
def test_short_runs(labels: list[str]) -> None:
    assert WholeRun(labels).total == len(labels)


def bar(elapsed: float, completed: float, **fields: object) -> Task:
    """A bar of four rows that began so many seconds ago."""
    task = Task(TaskID(0), "all rows", 4, completed, _get_time=lambda: elapsed, fields=dict(fields))
    task.start_time = 0.0
    return task


def test_the_time_left_goes_by_the_mean_speed_and_grows_while_nothing_moves() -> None:
    assert seconds_left(bar(60.0, 3.0)) == pytest.approx(20.0)
    assert seconds_left(bar(90.0, 3.0)) == pytest.approx(30.0)  # a head start lasts
    assert seconds_left(bar(60.0, 0.0)) is None
    assert TimeLeft(lambda: None).render(bar(60.0, 3.0, rows=True)).plain == "0:00:20"
    assert TimeLeft(lambda: None).render(bar(60.0, 0.0, rows=True)).plain == "-:--:--"
    assert (
        TimeLeft(lambda: None).render(bar(60.0, 3.0)).plain == "-:--:--"
    )  # other bars: rich's own, which has seen no step


def test_all_rows_take_at_least_as_long_as_the_newest_bar() -> None:
    class Slow(Task):
        time_remaining = 35.0

    slow = Slow(TaskID(1), "head start", 600, 26, _get_time=lambda: 0.0)
    assert seconds_left(bar(60.0, 3.0), slow) == 35.0
    assert TimeLeft(lambda: slow).render(bar(60.0, 3.0, rows=True)).plain == "0:00:35"
    assert seconds_left(bar(600.0, 3.0), slow) == pytest.approx(200.0)
