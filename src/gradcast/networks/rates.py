"""Learning rates of the parts of a network."""

from collections.abc import Mapping, Sequence

from gradcast.errors import GradcastError
from gradcast.specs.table import nearest

WORDS = ("head", "body")  # the output layer, and everything before it


def rate_factors(rates: Mapping[str, float], names: Sequence[str]) -> list[float] | None:
    """The factor on the learning rate of each weight of these names; None: all have the same.

    ``rates`` has factors by part: the beginning of a weight's name, of which the longest counts, or one of ``WORDS``.
    """
    if not rates:
        return None
    useless = [part for part in rates if part not in WORDS and not any(_inside(name, part) for name in names)]
    if useless:
        parts = [*WORDS, *dict.fromkeys(name.partition(".")[0] for name in names)]
        raise GradcastError(f"model.rates: no trained weight is in {useless[0]!r}{nearest(useless[0], parts)}")
    last = names[-1].rpartition(".")[0]

    def factor(name: str) -> float:
        fitting = [part for part in rates if _inside(name, part)]
        word = WORDS[0] if _inside(name, last) else WORDS[1]
        return rates[max(fitting, key=len)] if fitting else rates.get(word, 1.0)

    return [factor(name) for name in names]


def _inside(name: str, part: str) -> bool:
    return f"{name}.".startswith(f"{part}.")
