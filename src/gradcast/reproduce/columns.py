"""Rows side by side in a figure: each that is compared with none heads a column of those compared with it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gradcast.reproduce.outcome import Line
from gradcast.specs.spec import Setting, describe

NETWORKS = {"mlp": "MLP", "slim-resnet18": "ResNet", "efficientnet-b1": "EffNet"}


@dataclass(frozen=True)
class Column:
    """A row and those compared with it, as far as they are trained, by what they are called below its title."""

    title: str
    lines: dict[str, Line]


def columns(found: Sequence[Line], base: str) -> list[Column]:
    """Those with anything trained, in the order of the table; ``base`` is what the row at their head is called."""
    made = []
    for head in found:
        if head.item.setting is not None and not head.item.against:
            own = [line for line in found if line.ours and head.item.name in (line.item.name, line.item.against)]
            made.append((head, Column(title(head.item.setting), {_called(line, head, base): line for line in own})))
    shown = [(head, column) for head, column in made if column.lines]
    titles = [column.title for _, column in shown]
    return [  # a title that two columns have says too little
        column if titles.count(column.title) == 1 else replace(column, title=f"{head.item.label}: {column.title}")
        for head, column in shown
    ]


def title(setting: Setting) -> str:
    """Network, learner and signal, whatever the row is called: settings may have been changed."""
    return f"{NETWORKS.get(setting.model.name, setting.model.name)} {describe(setting)}"


def _called(line: Line, head: Line, base: str) -> str:
    """What a label adds to that of the column's first row; the same words in all columns."""
    return base if line is head else line.item.label.removeprefix(head.item.label).lstrip(", ")
