"""The page of a sweep: the best setting, the final comparison, and accuracy over the values of every key."""

from collections.abc import Sequence

from gradcast.results.figures.trial_panels import Dot, TunedKey, trial_panels
from gradcast.results.report.blocks import Block, Fold, Gallery, Picture, Section
from gradcast.results.report.markup import joined, tag
from gradcast.results.report.page import document, section_markup
from gradcast.results.report.read import read_runs
from gradcast.results.report.sections import sections
from gradcast.results.report.tables import Cell, Table
from gradcast.results.report.words import counted, verdicts
from gradcast.results.run_result import RunResult
from gradcast.specs.spec import Spec
from gradcast.specs.text import dump, value_text
from gradcast.sweeps.sweep_files import SweepPlan, trial_table
from gradcast.sweeps.trials import Trial

OF_THE_FINAL = ("results", "differences")  # sections of its report that the page shows


def sweep_page(
    plan: SweepPlan, trials: Sequence[Trial], best: Trial, final: Spec, result: RunResult, caution: str = ""
) -> str:
    """One file that needs nothing else."""
    title = f"Sweep of {plan.row.label}"
    content = [
        Section("best", "The best setting", [_best(plan, best, final)]),
        *_final(result),
        Section("panels", "Accuracy over the values", [_panels(plan, trials, best)]),
        Section("trials", "All trials", [trial_table(plan, trials), *_explained(trials)]),
        Section("tuned-on", "What was tuned on", [tuned_on(plan)]),
        Section("specification", "Specification", [Fold("best.toml", dump(final))]),
    ]
    links = [tag("a", section.title, href=f"#sweep-{section.name}") for section in content]
    switch = tag("button", "◐", type="button", id="theme", aria_label="Switch between light and dark")
    said = [tag("p", sentence, class_="lead") for sentence in [*verdicts(result.rows), *filter(None, [caution])]]
    head = tag("header", tag("h1", title), tag("p", _counts(plan, trials), class_="lead"), *said)
    parts = [section_markup(section, "sweep") for section in content]
    body = joined(
        tag("nav", tag("div", *links, class_="links"), switch, aria_label="Contents"),
        tag("main", head, tag("section", *parts, class_="run")),
        tag("footer", tag("p", "Made by gradcast from the files of its runs alone.")),
    )
    return document(title, body)


def tuned_on(plan: SweepPlan) -> str:
    """Which images and seeds the trials were tuned on."""
    asked, seeds = plan.asked, plan.asked.tuning_seeds
    tasks = "" if asked.tune_tasks is None else f" Only the first {asked.tune_tasks} tasks were trained."
    return (
        f"Every trial was tested on {100 * asked.validation:g} % of the training images, which were held out of its "
        f"training, with the seeds {', '.join(map(str, seeds))}.{tasks} No test image was looked at. The final "
        f"comparison has {counted(len(asked.final_seeds), 'other seed')}, all training images and the test images."
    )


def _counts(plan: SweepPlan, trials: Sequence[Trial]) -> str:
    states = [own.state for own in trials]
    each = [f"{states.count(state)} {state}" for state in dict.fromkeys(states)]
    seeds = counted(len(plan.asked.tuning_seeds), "tuning seed")
    return f"{counted(len(trials), 'trial')} ({', '.join(each)}), {seeds} each"


def _best(plan: SweepPlan, best: Trial, final: Spec) -> Table:
    base, before = final.rows[0], plan.row.setting
    rows = [[Cell(key), Cell(value_text(best.values[key])), Cell(_at(before, key))] for key in plan.keys]
    title = f"Trial {best.number}; compared with {base.label}"
    return Table("best", title, ["key", "best value", "before"], rows)


def _at(setting: object, key: str) -> str:
    """What a setting has at a key."""
    table, _, name = key.partition(".")
    own = getattr(setting, table)
    found = getattr(own[0] if isinstance(own, list) else own, name, None)
    return "-" if found is None else value_text(found)


def _final(result: RunResult) -> list[Section]:
    """Of the ordinary report of the final run."""
    (run,) = read_runs(result.directory).runs
    return [section for section in sections(run) if section.name in OF_THE_FINAL]


def _panels(plan: SweepPlan, trials: Sequence[Trial], best: Trial) -> Block:
    shown = [own for own in trials if own.state in ("finished", "stopped")]
    keys = [TunedKey(own.key, own.logarithmic) for own in plan.over]
    numeric = [all(_number(own.values[key]) for own in shown) for key in plan.keys]
    dots = [
        Dot(
            [_place(own.values[key], is_number) for key, is_number in zip(plan.keys, numeric, strict=True)],
            100 * (own.mean or 0.0),
            stopped=own.state == "stopped",
            best=own.number == best.number,
        )
        for own in shown
    ]
    said = ", ".join(f"{key} = {value_text(value)}" for key, value in best.values.items())
    alt = f"Accuracy of {counted(len(shown), 'trial')} over {', '.join(plan.keys)}; the best has {said}."
    caption = (
        "A dot is a trial: its mean accuracy over tuning seeds on held-out training images. A cross was stopped early "
        "and has the mean over the tasks it saw."
    )
    return Gallery(caption, [Picture("panels", alt, trial_panels(keys, dots))], "single")


def _explained(trials: Sequence[Trial]) -> list[Block]:
    odd = [own for own in trials if own.state in ("refused", "failed", "diverged")]
    return [f"Trial {own.number} {own.state}: {own.note}" for own in odd]


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _place(value: object, number: bool) -> float | str:
    if number:
        assert isinstance(value, int | float)
        return float(value)
    return value if isinstance(value, str) else value_text(value)
