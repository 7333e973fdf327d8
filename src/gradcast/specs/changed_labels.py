"""What tables call a row whose learner or signals the caller changed."""

from collections.abc import Callable

from gradcast.errors import GradcastError
from gradcast.specs.spec import Row, Setting, Spec, describe


def with_changes_told(spec: Spec, parsed: Callable[[], Spec]) -> Spec:
    """Rows with labels of their own that train another learner or other signals than before say so.

    ``parsed`` gives the specification before the changes; labels stay where only these make it whole.
    """
    try:
        before = {row.name: row for row in parsed().rows}
    except GradcastError:
        return spec
    rows = [_told(row, before[row.name]) if row.name in before else row for row in spec.rows]
    return spec.model_copy(update={"rows": rows})


def _told(row: Row, before: Row) -> Row:
    described, kept = before.label == describe(before.setting), row.label == before.label
    if described or not kept or _methods(row.setting) == _methods(before.setting):
        return row
    return row.model_copy(update={"label": f"{row.label}, changed to {describe(row.setting)}"})


def _methods(setting: Setting) -> list[str]:
    return [setting.learner.name, *(signal.name for signal in setting.signals)]
