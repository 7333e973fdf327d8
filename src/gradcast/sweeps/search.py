"""Which values a sweep tries, in which order: every combination, random ones, or Optuna's TPE."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product
from math import prod
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from gradcast.errors import GradcastError
from gradcast.randomness import derive, numpy_generator
from gradcast.specs.text import value_text
from gradcast.sweeps.over import Over, Range, Value

Search = Literal["grid", "random", "tpe"]
Values = dict[str, Value]  # of a trial, by key
WITHOUT_OPTUNA = "--search tpe needs Optuna: pip install 'gradcast[sweep]'"
CORNERS = 256
ASKED_AGAIN = 20  # times a trial, where TPE proposes what was tried already


@dataclass(frozen=True)
class Told:
    """The mean accuracy of a trial."""

    accuracy: float
    stopped_after: int = 0  # tasks, where the trial was stopped early


@runtime_checkable
class Proposals(Protocol):
    """Hands out trials, and hears what became of them."""

    def next(self, count: int) -> list[Values]:
        """At most so many; none when the search is over."""
        ...

    def tell(self, values: Values, told: Told | None) -> None:
        """What became of a trial; None where it has no accuracy."""
        ...


@dataclass
class Listed:
    """Trials that are known beforehand."""

    waiting: Iterator[Values]

    def next(self, count: int) -> list[Values]:
        """The next values in their order."""
        return list(islice(self.waiting, count))

    def tell(self, values: Values, told: Told | None) -> None:
        """Do nothing: results of trials change no order."""


def grid(over: Sequence[Over]) -> list[Values]:
    """Every combination; the last key changes fastest."""
    keys = [own.key for own in over]
    return [dict(zip(keys, values, strict=True)) for values in product(*(own.grid() for own in over))]


def random_draws(over: Sequence[Over], trials: int, seed: int) -> list[Values]:
    """Different combinations, listed values with equal probability, ranges between their ends."""
    generator, found = numpy_generator(seed, "sweep"), dict[str, Values]()
    _enough(trials, combinations(over))
    while len(found) < trials:
        drawn = {own.key: _drawn(own, generator) for own in over}
        found.setdefault(said(drawn), drawn)
    return list(found.values())


def _drawn(own: Over, generator: np.random.Generator) -> Value:
    if isinstance(own.values, Range):
        return own.values.at(float(generator.random()))
    return own.values[int(generator.integers(len(own.values)))]


def combinations(over: Sequence[Over]) -> int | None:
    """How many there are; None where some value is any number of a range."""
    if any(isinstance(own.values, Range) and not own.values.whole for own in over):
        return None
    return prod(own.values.wholes if isinstance(own.values, Range) else len(own.values) for own in over)


def corners(over: Sequence[Over]) -> Iterator[Values]:
    """Combinations of listed values and ends of ranges, not too many of them."""
    keys = [own.key for own in over]
    every = product(*(own.samples() for own in over))
    return (dict(zip(keys, values, strict=True)) for values in islice(every, CORNERS))


def said(values: Values) -> str:
    """One text for one combination."""
    return ", ".join(f"{key}={value_text(value)}" for key, value in values.items())


def proposals(search: Search, over: Sequence[Over], trials: int | None, seed: int) -> tuple[Proposals, int]:
    """The trials of a search and how many there are."""
    if search == "grid":
        if trials is not None:
            raise GradcastError("--trials belongs to --search random and tpe; a grid has every combination")
        every = grid(over)
        return Listed(iter(every)), len(every)
    if trials is None:
        raise GradcastError(f"--search {search} needs the number of trials, as in --trials 20")
    if search == "random":
        return Listed(iter(random_draws(over, trials, seed))), trials
    _enough(trials, combinations(over))
    return Tpe(over, trials, seed), trials


def _enough(trials: int, most: int | None) -> None:
    if most is not None and trials > most:
        raise GradcastError(f"--trials {trials} is more than the {most} combinations that there are; lower it")


class Tpe:
    """Optuna's tree-structured Parzen estimator; the same results in the same order make the same proposals."""

    def __init__(self, over: Sequence[Over], trials: int, seed: int) -> None:
        try:
            import optuna
        except ImportError:
            raise GradcastError(WITHOUT_OPTUNA) from None
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.over, self.left, self.seed, self.optuna = over, trials, seed, optuna
        first = min(10, max(2, trials // 3))  # drawn at random, before there is something to learn from
        sampler = optuna.samplers.TPESampler(seed=derive(seed, "sweep") % 2**32, n_startup_trials=first)
        self.study = optuna.create_study(direction="maximize", sampler=sampler)
        self.spaces = {own.key: self._space(own) for own in over}
        self.asked: dict[str, Any] = {}
        self.known: dict[str, Told | None] = {}

    def next(self, count: int) -> list[Values]:
        """Combinations that were not tried yet."""
        found = [self._propose() for _ in range(min(count, self.left))]
        self.left -= len(found)
        return found

    def tell(self, values: Values, told: Told | None) -> None:
        """What the next proposals learn from."""
        name = said(values)
        self.known[name] = told
        self._answer(self.asked[name], told)

    def _propose(self) -> Values:
        for _ in range(ASKED_AGAIN):
            trial = self.study.ask(self.spaces)
            values = {own.key: _value(own, trial.params[own.key]) for own in self.over}
            if said(values) not in self.asked:
                break
            self._answer(trial, self.known.get(said(values)))  # tried already
        else:  # it insists: any that is left
            drawn = random_draws(self.over, len(self.asked) + 1, self.seed)
            values = next(each for each in drawn if said(each) not in self.asked)
            self.study.enqueue_trial({own.key: _parameter(own, values[own.key]) for own in self.over})
            trial = self.study.ask(self.spaces)
        self.asked[said(values)] = trial
        return values

    def _answer(self, trial: Any, told: Told | None) -> None:  # noqa: ANN401 -- Optuna may not be installed
        if told is None:
            self.study.tell(trial, state=self.optuna.trial.TrialState.FAIL)
        elif told.stopped_after:
            trial.report(told.accuracy, told.stopped_after)
            self.study.tell(trial, state=self.optuna.trial.TrialState.PRUNED)
        else:
            self.study.tell(trial, told.accuracy)

    def _space(self, own: Over) -> Any:  # noqa: ANN401 -- as above
        spaces = self.optuna.distributions
        if not isinstance(own.values, Range):
            return spaces.CategoricalDistribution([value_text(value) for value in own.values])
        low, high, logarithmic = own.values.low, own.values.high, own.values.logarithmic
        if own.values.whole:
            return spaces.IntDistribution(int(low), int(high), log=logarithmic)
        return spaces.FloatDistribution(low, high, log=logarithmic)


def _value(own: Over, proposed: Any) -> Value:  # noqa: ANN401 -- as above
    if isinstance(own.values, Range):
        return own.values.rounded(proposed)
    return next(value for value in own.values if value_text(value) == proposed)


def _parameter(own: Over, value: Value) -> object:
    return value if isinstance(own.values, Range) else value_text(value)
