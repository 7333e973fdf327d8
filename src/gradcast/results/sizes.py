"""Sizes that a reader asks for beside a table: images of the pool, parameters of h; the same words everywhere."""

from collections.abc import Mapping, Sequence

# Facts that a run stores with its stream.
POOL_IMAGES = "pool_images"  # of each pool
H_PARAMETERS = "h_parameters"  # of one seed

MANY = 5  # rows that a sentence names


def h_parameters(facts: Mapping[str, object]) -> int | None:
    """Parameters of h, as a run has stored them; None where it has no h, or does not say."""
    found = facts.get(H_PARAMETERS)
    return found if isinstance(found, int) else None


def of_h(counts: Sequence[tuple[str, int | None]]) -> str:
    """How large h is in rows, given by their labels; empty where none has one."""
    told = by_row([(label, f"{count:,} parameters") for label, count in counts if count is not None])
    return f"The gradient learner h has {told}" if told else ""


def by_row(values: Sequence[tuple[str, str]]) -> str:
    """What rows have, by their labels: the most common value first, then the rows that have another."""
    rows: dict[str, list[str]] = {}
    for label, value in values:
        rows.setdefault(value, []).append(label)
    ordered = sorted(rows.items(), key=lambda own: -len(own[1]))
    if not ordered:
        return ""
    common, several = ordered[0][0], len(ordered[0][1]) > 1 or len(ordered) == 1
    rest = ordered[1:] if several else ordered
    others = [f"{value} in {_named(labels)}" for value, labels in rest]
    return "; ".join([*([common] if several else []), *others])


def _named(labels: Sequence[str]) -> str:
    """Rows by their labels; many of them by their number."""
    return " and ".join(map(repr, labels)) if len(labels) <= MANY else f"{len(labels)} other rows"
