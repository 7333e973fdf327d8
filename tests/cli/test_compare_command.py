import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from gradcast.cli.compare_command import compare, print_comparisons
from gradcast.errors import GradcastError
from gradcast.results.comparison import Comparisons
from gradcast.results.comparison import compare as compare_places
from gradcast.results.report.words import signed_points
from tests.compared import compare as compare_values
from tests.results.report.copies import copy_of_run
from tests.trained_runs import finished


def command(*arguments: str) -> str:
    """What the command prints, 80 columns wide."""
    app = typer.Typer(add_completion=False, rich_markup_mode="rich")
    app.command()(compare)
    found = CliRunner(env={"COLUMNS": "80"}).invoke(app, arguments, catch_exceptions=False)
    assert found.exit_code == 0
    return found.stdout


def shown(variant: list[float], base: list[float], *left_out: str, quick: bool = False) -> list[str]:
    """The lines of one comparison of these values, on a wide screen."""
    directory = finished()[0]
    own = compare_places(directory.path / "base", directory.path / "random").found[0]
    changed = replace(own, paired=compare_values(variant, base), base=replace(own.base, label="GEM [/x]"))
    console = Console(width=200, file=io.StringIO(), record=True)
    print_comparisons(console, Comparisons([changed], list(left_out), [], quick=quick))
    return [line.rstrip() for line in console.export_text().splitlines()]


def test_verdict_first_then_the_numbers_within_eighty_columns() -> None:
    directory, results = finished()
    text = command(str(directory.path / "base"), str(directory.path))
    lines = [line.rstrip() for line in text.splitlines()]
    assert max(map(len, lines)) <= 80
    blocks = [block.splitlines() for block in "\n".join(lines).strip().split("\n\n")]
    assert len(blocks) == len(results) - 1
    for block, result in zip(blocks, results[1:], strict=True):
        assert result.paired is not None
        verdict = " ".join(line for line in block if not line.startswith("  "))
        assert verdict.startswith(f"{result.label} against GEM: ")
        assert block[0].startswith(result.label)
        told = [re.split(r"\s{3,}", line.strip()) for line in block if line.startswith("  ")]
        numbers = {line[0]: line[1] for line in told if len(line) == 2}
        assert numbers["settings"].startswith('signal.name: "none" -> ')
        assert numbers["mean ± t interval"] == f"{signed_points(result.paired)} points"
        shift = result.paired.shift
        assert numbers["Hodges-Lehmann"] == f"{shift.value:+.2f} points over 3 seeds, no interval"
        corrected = r", corrected for 1 claim \d\.\d{3}" if result.name == "predicted" else ""
        assert re.fullmatch(rf"{result.paired.wilcoxon:.3f}{corrected}", numbers["p (signed rank)"])
        assert numbers["p (t test)"] == f"{result.paired.t_test:.3f}"
        assert numbers["effect size"] == f"{result.paired.effect_size:.2f}"
        needed = result.paired.seeds_needed
        assert numbers.get("seeds needed") == (None if needed is None else f"about {needed}, a guess from 3 seeds")


def test_one_comparison_is_not_corrected_and_a_row_with_itself_is_identical() -> None:
    place = str(finished()[0].path / "base")
    lines = command(place, place)
    assert " ".join(lines.split()).startswith(
        f"{place} against {place}: identical ACC on every seed Hodges-Lehmann +0.00 points over 3 seeds"
    )
    assert "corrected" not in lines
    assert "seeds needed" not in lines
    assert lines.split()[-3:] == ["settings", "the", "same"]


def test_one_seed_shows_a_difference_and_nothing_that_needs_more() -> None:
    lines = shown([81.0], [80.0])
    assert lines[0].endswith("against GEM [/x]: open: 1 seed, a verdict needs 10 (+1.0 points)")
    assert lines[1] == "  difference   +1.00 points on one seed"
    assert lines[2] == '  settings     signal.name: "none" -> "noise"'
    assert lines[-1] == ""


def test_a_quick_look_says_so_first() -> None:
    assert shown([81.0], [80.0], quick=True) == ["QUICK LOOK, not a result", *shown([81.0], [80.0])]


def test_a_certain_difference_and_what_was_left_out() -> None:
    lines = shown([81.001, 82.0], [80.0, 81.0], "runs/[bold]: seeds left out", "another")
    assert "  p (t test)          below 0.001" in lines
    assert "  effect size         1414.92" in lines  # 1.0005 over 0.001 / sqrt(2)
    assert "  seeds needed        about 10, a guess from 2 seeds" in lines
    assert lines[-2:] == ["note: runs/[bold]: seeds left out", "note: another"]
    assert "  effect size         not known, the seeds differ by the same" in shown([81.0, 82.0], [80.0, 81.0])


def test_json_holds_every_number() -> None:
    directory, results = finished()
    found = json.loads(command(str(directory.path), str(directory.path / "base"), "--json"))
    assert (found["left_out"], found["quick"]) == ([], False)
    own = found["comparisons"][0]
    paired = results[1].paired
    assert paired is not None
    assert own["variant"] == {"place": str(directory.path / "predicted"), "label": results[1].label}
    assert own["base"] == {"place": str(directory.path / "base"), "label": results[0].label}
    assert own["seeds"] == [0, 1, 2]
    assert own["difference"]["mean"] == pytest.approx(paired.difference.mean)
    assert (own["t_test"], own["wilcoxon"]) == pytest.approx((paired.t_test, paired.wilcoxon))
    assert {"shift", "effect_size", "seeds_needed", "family", "wilcoxon_holm", "kind", "verdict"} <= own.keys()


def test_a_damaged_row_is_an_error_beside_the_comparisons(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = copy_of_run(tmp_path / "run")
    (directory.path / "predicted" / "seed-1" / "accuracy.csv").unlink()
    with pytest.raises(typer.Exit) as left:
        compare(directory.path / "base", directory.path)
    assert left.value.exit_code == 2
    said = capsys.readouterr()
    assert "against GEM: " in said.out
    assert "error: " in said.err
    assert "predicted/seed-1/accuracy.csv is missing" in " ".join(said.err.split())


def test_a_mistake_is_one_sentence() -> None:
    with pytest.raises(GradcastError, match=r"nowhere does not exist"):
        command("nowhere", str(finished()[0].path))
