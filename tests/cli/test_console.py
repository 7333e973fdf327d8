import io
import re
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rich.console import Console

from gradcast.cli.console import (
    ProgressDisplay,
    RowProgress,
    print_results,
    print_sentence,
    print_warning,
    show_warning,
)
from gradcast.training.loop import Extent, Position
from tests.trained_runs import few_labels, finished


def console(width: int = 80) -> tuple[Console, io.StringIO]:
    text = io.StringIO()
    return Console(file=text, width=width, force_terminal=True, color_system=None), text


def test_table_fits_eighty_columns_without_wrapping_a_number() -> None:
    out, text = console()
    print_results(out, finished()[1], Path("runs/x"))
    lines = text.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    for result in finished()[1]:
        (line,) = [line for line in lines if line.strip().startswith(result.label + "  ")]
        assert f"{100 * result.over_seeds('acc').mean:.2f} ±" in line
    assert any("no measurable effect" in line or "identical" in line or "points" in line for line in lines)
    assert lines[-1].startswith("Results: runs/x")
    assert "The gradient learner h has 1,824 parameters." in lines


def test_what_does_not_fit_on_a_line_is_indented() -> None:
    console = Console(file=io.StringIO(), width=20)
    print_sentence(console, "GEM [a] against GEM: helps by 3.8 points")
    assert console.file.getvalue() == "GEM [a] against GEM:\n  helps by 3.8\n  points\n"  # type: ignore[attr-defined]


def test_a_quick_look_is_headed_so() -> None:
    out, text = console()
    print_results(out, finished()[1], Path("runs/x"), mark="QUICK LOOK")
    assert text.getvalue().lstrip().startswith("QUICK LOOK: 3 seeds, mean ± 95 % confidence interval")


def test_labels_and_paths_with_brackets_are_shown_as_they_are() -> None:
    out, text = console(200)
    odd = [replace(result, label=f"{result.name} [/x] [bold]") for result in finished()[1]]
    print_results(out, odd, Path("runs/[/x][bold]"))
    with ProgressDisplay(out) as display:
        display.row("GEM [/x]", Extent((3,)))
        display.skipped("DCL [/x]")
    shown = text.getvalue()
    assert all(part in shown for part in ("base [/x] [bold]", "runs/[/x][bold]", "GEM [/x]", "DCL [/x]"))


def test_only_the_label_of_a_bar_gives_way_in_a_narrow_terminal() -> None:
    out, text = console(80)
    with ProgressDisplay(out) as display:
        row = display.row("CIFAR-100, 10,000 labels: MG + predicted", Extent((400000,), every=400))
        display.progress.refresh()
        assert "getting ready" in text.getvalue()
        row.begin(0, Position(0, 123455, 123455))
        row.stepped(123455, 0, {"test_accuracy": torch.tensor([0.605])})
    shown = text.getvalue()
    assert "123456/400000 error 39.5 % 0:00:00 -:--:-- left" in shown
    assert "…" not in shown
    words = re.sub(r"\x1b\[[^a-zA-Z]*[a-zA-Z]|[━╸╺]", "", shown).split()
    assert {"CIFAR-100,", "10,000", "labels:", "MG", "+", "predicted"} <= set(words)


def test_progress_shows_step_task_and_accuracy() -> None:
    out, text = console(100)
    with ProgressDisplay(out) as display:
        row = display.row("GEM", Extent((5, 5)))
        for step in range(10):
            row.stepped(step, step // 5, {})
            if step % 5 == 4:
                row.trained(step // 5)
        row.evaluated(2, torch.tensor([[0.5, 0.7]]))
        assert list(display.track(["a", "b"], "reading", 2)) == ["a", "b"]
        display.skipped("DCL")
    shown = text.getvalue()
    assert "10/10" in shown
    assert "60.0 %" in shown
    assert "2/2" in shown
    assert "DCL: finished earlier" in shown


def test_a_log_has_a_line_a_minute() -> None:
    text, clock = io.StringIO(), iter(range(0, 1000, 5))
    log = Console(file=text, width=40)
    with ProgressDisplay(log, now=lambda: float(next(clock))) as display:
        row = display.row("ResNet GEM [/x] + predicted gradients", Extent((10_000, 10_000)))
        for step in range(30):  # five seconds each
            row.stepped(step, 0, {})
        lines = text.getvalue().splitlines()
        assert [line.partition(", task 1")[0] for line in lines] == [
            f"ResNet GEM [/x] + predicted gradients: {done} of 20,000" for done in (12, 24)
        ]
        assert re.fullmatch(r"(, \d+:\d\d:\d\d left)?", lines[0].partition(", task 1")[2])
        moved = display.transfer("cifar-100")
        for done in range(12):
            moved(done << 20, None)
        assert text.getvalue().splitlines()[2].startswith("cifar-100: 5, MB")


def advance(row: RowProgress, steps: int) -> None:
    for step in range(steps):
        row.stepped(step, 0, {})


def of_all_rows(display: ProgressDisplay) -> tuple[float, float | None]:
    (bar,) = (task for task in display.progress.tasks if task.description == "all rows")
    return bar.completed, bar.total


def test_a_bar_counts_all_rows_and_tells_the_time_left_of_all() -> None:
    out, text = console(100)
    clock = iter(range(100_000))
    with ProgressDisplay(out) as display:
        display.progress.get_time = lambda: 0.01 * next(clock)
        display.plan(["GEM", "DCL", "EWC"])
        advance(display.row("GEM", Extent((10,))), 10)
        assert of_all_rows(display) == (1.0, 3)
        advance(display.row("head start", Extent((10,))), 10)  # no row of the run
        advance(display.row("DCL", Extent((10,))), 5)
        assert of_all_rows(display) == (1.5, 3)
        display.progress.refresh()
        lines = [line for line in text.getvalue().splitlines() if "all rows" in line and "1/3" in line]
        assert re.search(r"\d+:\d\d:\d\d left", lines[-1])
        display.skipped("EWC")
        assert of_all_rows(display) == (1.5, 2)


def test_steps_of_another_process_say_nothing_about_the_time_left_of_all() -> None:
    out, _ = console(100)
    with ProgressDisplay(out) as display:
        display.plan(["GEM", "DCL"])
        row = display.row("GEM", Extent((10,)), start=Position(0, 6, 6))
        row.begin(0, Position(0, 6, 6))
        assert of_all_rows(display) == (0.0, 2)
        row.stepped(6, 0, {})
        assert of_all_rows(display) == (0.25, 2)


def test_a_single_row_needs_no_bar_of_all() -> None:
    out, text = console(100)
    with ProgressDisplay(out) as display:
        display.plan(["GEM"])
        advance(display.row("GEM", Extent((10,))), 10)
    assert "all rows" not in text.getvalue()


def test_a_line_of_a_log_tells_of_all_rows() -> None:
    text, clock = io.StringIO(), iter(range(0, 10_000, 5))
    with ProgressDisplay(Console(file=text, width=40), now=lambda: float(next(clock))) as display:
        display.plan(["GEM", "DCL"])
        advance(display.row("GEM", Extent((12,))), 12)
        advance(display.row("DCL", Extent((24,))), 12)
    assert re.search(r"^DCL: 12 of 24.*, all rows: 1 of 2 done(, \d+:\d\d:\d\d left)?$", text.getvalue(), re.MULTILINE)


def test_a_terminal_has_bars_alone() -> None:
    out, text = console(100)
    with ProgressDisplay(out, now=iter(range(0, 10_000, 100)).__next__) as display:
        row = display.row("GEM", Extent((5, 5)))
        for step in range(10):
            row.stepped(step, 0, {})
    assert "GEM: " not in text.getvalue()


def test_a_row_that_goes_on_starts_where_it_was() -> None:
    out, text = console(100)
    with ProgressDisplay(out) as display:
        row = display.row("GEM", Extent((5, 5)), start=Position(1, 2, 7))
        row.begin(0, Position(1, 2, 7))
        row.stepped(7, 1, {})
    assert "GEM: goes on after step 7" in text.getvalue()
    assert "8/10" in text.getvalue()
    assert "-:--:-- left" in text.getvalue().splitlines()[-2]  # one step, and those of another process, tell no speed


def test_a_task_that_ends_early_moves_the_bar_to_its_end_and_epochs_are_told() -> None:
    out, text = console(100)
    with ProgressDisplay(out) as display:
        row = display.row("ACL", Extent((6, 6), epochs=(2, 2)), groups=2)
        row.begin(1, Position())
        for step in range(3):
            row.stepped(step, 0, {})
        display.progress.refresh()
        assert "15/24" in text.getvalue()
        assert "task 1, epoch 2" in text.getvalue()
        row.trained(0)
    assert "18/24" in text.getvalue()


def test_epochs_of_tasks_of_different_lengths_are_counted_by_each_tasks_own() -> None:
    out, text = console(100)
    with ProgressDisplay(out) as display:
        row = display.row("GEM", Extent((2, 9), epochs=(1, 3)))
        row.begin(0, Position(1, 3, 5))
        row.stepped(5, 1, {})
        display.progress.refresh()
    assert "task 2, epoch 2" in text.getvalue()


def test_a_warning_is_one_line_and_told_once() -> None:
    out, text = console(40)
    with warnings.catch_warnings(action="always"), ProgressDisplay(out):
        for message in ("the pool [small] is small", "the pool [small] is small", "another"):
            warnings.warn(message, stacklevel=1)
    lines = [line.removeprefix("\x1b[2K") for line in text.getvalue().splitlines() if "warning:" in line]
    assert lines == ["warning: the pool [small] is small", "warning: another"]


def test_names_of_files_cannot_steer_the_terminal() -> None:
    out, text = console(80)
    with warnings.catch_warnings(action="always"), ProgressDisplay(out) as display:
        warnings.warn("skipped a\x1b]0;x\x07.png", stacklevel=1)
        assert list(display.track(range(2), "decoding b\x1b[9m", 2)) == [0, 1]
        display.note("pets\x1b[8m: 2 classes")
    shown = text.getvalue()
    assert "skipped a?]0;x?.png" in shown
    assert "decoding b?[9m" in shown
    assert "pets?[8m: 2 classes" in shown


def test_where_no_bar_moves_a_line_says_what_begins() -> None:
    text = io.StringIO()
    with ProgressDisplay(Console(file=text, width=80)) as display:
        rounds = iter(display.track(range(2), "decoding coco to 256 x 256 pixels, 21.7 GB in the cache", 2))
        next(rounds)
        assert "decoding coco to 256 x 256 pixels, 21.7 GB in the cache ..." in text.getvalue()


def test_errors_of_few_labels_fit_eighty_columns_and_say_what_they_are() -> None:
    out, text = console()
    _, results = few_labels()
    print_results(out, [replace(own, label=own.label.ljust(24, "x")) for own in results], Path("runs/x"))
    lines = text.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert [line.split("  ")[1].strip() for line in lines if "x   " in line] == [
        own.label.ljust(24, "x") for own in results
    ]
    shown = " ".join(text.getvalue().split())
    assert "last error (%) best error (%) gain (points)" in shown
    assert "chosen on the test images as published figures are" in shown
    assert "A gain is how much lower the last error is than the first row's." in shown
    assert f"{results[1].diagnostics['best_error'].mean:.2f} ±" in shown


@pytest.mark.parametrize("every", [5, 1])
def test_progress_of_few_labels_shows_the_newest_test(every: int) -> None:
    out, text = console(100)
    with ProgressDisplay(out) as display:
        row = display.row("MG", Extent((10,), every=every))
        for step in range(7):
            row.stepped(step, 0, {"test_accuracy": torch.tensor([0.5, 0.75])} if step == 4 else {})
        display.progress.refresh()
        assert "error 37.5 %" in text.getvalue()
        row.evaluated(1, torch.tensor([[0.9], [0.9]]))
    assert "error 10.0 %" in text.getvalue()
    assert every == 1 or "task 1" not in text.getvalue()


def test_a_warning_steers_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    text = io.StringIO()
    print_warning(Console(file=text, highlight=False), "the file \x1b[2Jevil\nname is damaged")
    assert text.getvalue() == "warning: the file ?[2Jevil name is damaged\n"
    show_warning("the file \x1b[2Jevil", UserWarning, "a.py", 1)
    assert capsys.readouterr().err == "warning: the file ?[2Jevil\n"
