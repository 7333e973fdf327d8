"""A run of some of its rows."""

from collections.abc import Sequence

from gradcast.errors import GradcastError
from gradcast.specs.spec import Row, Spec
from gradcast.specs.table import nearest


def with_rows(spec: Spec, names: Sequence[str]) -> Spec:
    """The same run of these rows, in its order: the first that is left is the base. No name leaves all of them."""
    known = [row.name for row in spec.rows]
    for name in names:
        if name not in known:
            raise GradcastError(f"{spec.name} has no row {name!r}{nearest(name, known)}")
    rows = [_row(row, names) for row in spec.rows if row.name in names]
    return spec.model_copy(update={"rows": rows}) if names else spec


def _row(row: Row, names: Sequence[str]) -> Row:
    """A control of rows that are left out is one of those that stay."""
    if not isinstance(row.control, list):
        return row
    return row.model_copy(update={"control": [name for name in row.control if name in names]})
