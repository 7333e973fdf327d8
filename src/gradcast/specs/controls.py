"""Which rows make a claim, which are controls, and of which rows.

A control shows what is left of a gain when what is claimed is taken away. Random directions, a pass without a gradient
and pools of blank images are controls by nature: their registries say so. A row may say otherwise (``control``).
"""

from collections.abc import Sequence
from typing import Literal, Protocol, runtime_checkable

from gradcast.signals.registry import SIGNALS
from gradcast.specs.spec import Control, Setting
from gradcast.streams.pool_tables import BlankSpec, PoolSpec

Role = Literal["claim", "control", "bound"]
CONTROL, BOUND = "control", "truth"  # traits of signals


@runtime_checkable
class Marked(Protocol):
    """A row, of a specification or of a published table."""

    @property
    def name(self) -> str: ...

    @property
    def setting(self) -> Setting: ...

    @property
    def control(self) -> Control: ...


def role(row: Marked) -> Role:
    """What a row is for; true labels are a bound, which claims nothing and gates nothing."""
    if row.control is not None:
        return "claim" if row.control is False else "control"
    if _signals_with(row.setting, CONTROL) or _blank(row.setting):
        return "control"
    return "bound" if _signals_with(row.setting, BOUND) else "claim"


def controls_of(row: Marked, rows: Sequence[Marked]) -> list[str]:
    """Names of the rows that a claim must beat beside its base."""
    if role(row) != "claim":
        return []
    return [other.name for other in rows if role(other) == "control" and _is_control_of(other, row)]


def _is_control_of(control: Marked, row: Marked) -> bool:
    """By name; else where the two rows use unlabelled images and differ by signals alone, or by pools alone."""
    if isinstance(control.control, list):
        return row.name in control.control
    own, other = row.setting, control.setting
    if not pools_used(own) or not pools_used(other):
        return False
    ahead = own.head_start.model_copy(update={"pool": other.head_start.pool})
    changes = ({"signal": other.signal}, {"pool": other.pool}, {"head_start": ahead})
    return any(other == own.model_copy(update=change) for change in changes)


def pools_used(setting: Setting) -> list[PoolSpec]:
    """Those that signals and a head start take their images from."""
    names = [signal.pool for signal in setting.signals]
    names += [setting.head_start.pool] if setting.head_start.steps else []
    return [setting.pool[setting.pool_of(name)] for name in names]


def _signals_with(setting: Setting, trait: str) -> bool:
    return any(trait in SIGNALS[signal.name].traits for signal in setting.signals)


def _blank(setting: Setting) -> bool:
    """Whether it uses images that show nothing."""
    return any(isinstance(pool, BlankSpec) for pool in pools_used(setting))
