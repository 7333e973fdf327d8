"""Head starts of a quick look: each has a share of its steps, so that rows keep their order."""

from dataclasses import replace

from gradcast.reproduce.experiment import Experiment, Item
from gradcast.specs.spec import Setting


def shortened(experiment: Experiment) -> Experiment:
    """The same with shorter head starts (``quick_steps``); rows without one stay as they are."""
    share = experiment.header.quick_steps
    return replace(experiment, items=tuple(_shortened(item, share) for item in experiment.items))


def _shortened(item: Item, share: float) -> Item:
    if item.setting is None or not item.setting.head_start.steps:
        return item
    return replace(item, setting=_with_share(item.setting, share))


def _with_share(setting: Setting, share: float) -> Setting:
    steps = max(round(share * setting.head_start.steps), 1)
    return setting.model_copy(update={"head_start": setting.head_start.model_copy(update={"steps": steps})})
