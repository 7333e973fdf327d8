"""``gradcast ssl``: one task, few labels."""

import re
from collections.abc import Callable
from typing import Annotated

import typer

from gradcast.cli.options import RowsOption, SeedsOption, SetOption, row_names, with_seeds
from gradcast.cli.training_options import trains
from gradcast.errors import GradcastError
from gradcast.results.quick import QUICK_LOOK
from gradcast.specs import text as specfile
from gradcast.specs.chosen_rows import with_rows
from gradcast.specs.spec import Spec
from gradcast.training.schedule_tables import COUNTED

OF_COURSE = rf"(row\..+\.)?schedule\.({'|'.join(COUNTED)})"  # settings that --quick and --steps make
QUICK, QUICK_STEPS, QUICK_SEEDS = 100, 100, 2  # a hundredth of the steps, but no fewer than that


@trains
def ssl(
    what: Annotated[
        str,
        typer.Argument(
            metavar="PRESET|SPEC.toml", help='a preset or a file of one task with [bold]schedule.name = "steps"[/]'
        ),
    ] = "digits-100",
    settings: SetOption = None,
    seeds: SeedsOption = None,
    rows: RowsOption = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", metavar="", help="the same course in a hundredth of the steps or 100, two seeds: a look"
        ),
    ] = False,
    steps: Annotated[
        int | None, typer.Option(min=1, help="the same course in so many steps: warm-up, ramp, drops and tests move")
    ] = None,
) -> Spec:
    """Learn one task from few labels and many images without, and say which method helped.

    Last and best error of every row, over paired seeds. [bold]gradcast run[/] takes the same specifications.
    """
    if quick and steps:
        raise GradcastError("--quick has a number of steps of its own; leave it or --steps out")
    keys = [setting.partition("=")[0].strip() for setting in settings or []]
    own = next((key for key in keys if re.fullmatch(OF_COURSE, key)), None)
    if (quick or steps) and own:
        raise GradcastError(f"{own} is part of the course that --quick and --steps set; leave it or them out")
    count = seeds or (QUICK_SEEDS if quick and "seeds" not in keys else None)
    spec = with_rows(specfile.load(what, with_seeds(settings or [], count)), row_names(rows))
    if any(row.setting.one_task is None for row in spec.rows):
        raise GradcastError(
            f"{what} is not one task with schedule.name = 'steps'; run it with gradcast run, or set stream.tasks=1, "
            "schedule.name=steps and stream.labels"
        )
    if quick:
        spec = shortened(spec)
    elif steps is not None:
        spec = in_steps(spec, lambda _: steps)
    return spec


def shortened(spec: Spec) -> Spec:
    """A quick look at the same: no result takes its place, for its name says what it is."""
    quick = in_steps(spec, lambda steps: min(max(steps // QUICK, QUICK_STEPS), steps))
    title = f"{QUICK_LOOK}: {spec.title or spec.name}"
    return quick.model_copy(update={"name": f"{spec.name}-quick", "title": title})


def in_steps(spec: Spec, count: Callable[[int], int]) -> Spec:
    """Every row's course in another number of steps, which may depend on that it has."""
    rows = []
    for row in spec.rows:
        assert row.setting.one_task is not None
        short = row.setting.one_task.within(count(row.setting.one_task.steps))
        rows.append(row.model_copy(update={"setting": row.setting.model_copy(update={"schedule": short})}))
    return spec.model_copy(update={"rows": rows})
