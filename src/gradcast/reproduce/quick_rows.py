"""Rows of a quick look: smaller in what each row has, with a share of the steps of its head start."""

from dataclasses import replace
from typing import Any

from gradcast.reproduce.experiment import Experiment, Item, with_changes
from gradcast.specs import text as specfile
from gradcast.specs.spec import Setting


def shortened(experiment: Experiment) -> Experiment:
    """The same with the settings ``quick`` in all rows that have such keys, and shorter head starts (``quick_steps``).

    Head starts keep their proportions, so that rows keep their order.
    """
    header = experiment.header
    items = [_smaller(item, header.quick) for item in experiment.items]
    return replace(experiment, items=tuple(_shortened(item, header.quick_steps) for item in items))


def _smaller(item: Item, quick: list[str]) -> Item:
    if item.setting is None:
        return item
    changes: dict[str, Any] = {}
    for setting in quick:
        table, _, key = setting.partition("=")[0].partition(".")
        own = getattr(item.setting, table)
        tables = own if isinstance(own, list) else [own]
        if len(tables) == 1 and key in type(tables[0]).model_fields:  # a learner without a memory has no such key
            changes = specfile.assign(changes, setting)
    return with_changes(item, changes)


def _shortened(item: Item, share: float) -> Item:
    if item.setting is None or not item.setting.head_start.steps:
        return item
    return replace(item, setting=_with_share(item.setting, share))


def _with_share(setting: Setting, share: float) -> Setting:
    steps = max(round(share * setting.head_start.steps), 1)
    return setting.model_copy(update={"head_start": setting.head_start.model_copy(update={"steps": steps})})
