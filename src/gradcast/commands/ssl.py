"""``gradcast ssl``: one task, few labels."""

from pathlib import Path
from typing import Annotated

import typer

from gradcast import specfile
from gradcast.checkpoint.keeper import Safety
from gradcast.commands.options import DataOption, DeviceOption, JsonOption, OutOption, SetOption, ThreadsOption
from gradcast.commands.run import begin, train
from gradcast.errors import GradcastError
from gradcast.spec import Spec

QUICK, QUICK_STEPS, QUICK_SEEDS = 100, 100, 2  # a hundredth of the steps, but no fewer than that


def ssl(
    what: Annotated[
        str, typer.Argument(metavar="PRESET|SPEC.toml", help="a preset or a file with a table [bold]semi[/]")
    ] = "digits-100",
    settings: SetOption = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="train seeds 0 to N-1, together")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="the same course in a hundredth of the steps, two seeds: a look")
    ] = False,
    data: DataOption = None,
    out: OutOption = Path("runs"),
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
    resume: Annotated[bool, typer.Option("--resume", help="go on with an unfinished run, or fail")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="start unfinished rows over")] = False,
    json: JsonOption = False,
    show: Annotated[bool, typer.Option("--show", help="print the complete specification and train nothing")] = False,
) -> None:
    """Learn one task from few labels and many images without, and say which method helped.

    Last and best error of every row, over paired seeds. [bold]gradcast run[/] takes the same specifications.
    """
    count = seeds or (QUICK_SEEDS if quick else None)
    chosen = [*(settings or []), *([f"seeds={list(range(count))}"] if count else [])]
    spec = specfile.load(what, chosen)
    if any(row.setting.semi is None for row in spec.rows):
        raise GradcastError(f"{what} has no table [semi]; run it with gradcast run, or set semi.labels")
    spec = shortened(spec) if quick else spec
    if show:
        typer.echo(specfile.dump(spec), nl=False)
        return
    safety = Safety(start=begin(resume=resume, fresh=fresh))
    train(spec, safety, data=data, out=out, device=device, threads=threads, json=json)


def shortened(spec: Spec) -> Spec:
    """A quick look at the same: no result takes its place, for its name says what it is."""
    rows = []
    for row in spec.rows:
        assert row.setting.semi is not None
        steps = min(max(row.setting.semi.steps // QUICK, QUICK_STEPS), row.setting.semi.steps)
        setting = row.setting.model_copy(update={"semi": row.setting.semi.within(steps)})
        rows.append(row.model_copy(update={"setting": setting}))
    return spec.model_copy(update={"rows": rows, "name": f"{spec.name}-quick"})
