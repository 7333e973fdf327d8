"""What the rows of a run have in common: streams, test sets and pools, made once for all that use the same."""

from collections.abc import Iterable
from typing import Any, Protocol, runtime_checkable

from gradcast import build, models
from gradcast.data.images import Pixels, Source
from gradcast.data.load import Shelf
from gradcast.environment import Place
from gradcast.evaluate import Evaluator
from gradcast.loop import Observer
from gradcast.signals.named import NoSignalSpec
from gradcast.spec import Setting
from gradcast.streams.pool import Pool
from gradcast.streams.stream import Stream


@runtime_checkable
class Display(Protocol):
    """Shows a run to a person."""

    def track(self, rounds: Iterable[Any], what: str, total: int) -> Iterable[Any]:
        """A long loop before training."""
        ...

    def row(self, label: str, steps: int, done: int = 0) -> Observer:
        """A row begins, or goes on after so many steps; the observer hears of its steps."""
        ...

    def skipped(self, label: str) -> None:
        """A row was finished earlier."""
        ...


class Shared:
    """Made once, asked for by setting; ``source`` and ``images`` come from the caller where the setting says so."""

    def __init__(
        self,
        place: Place,
        shelf: Shelf,
        source: Source | None = None,
        images: Pixels | None = None,
        display: Display | None = None,
    ) -> None:
        self.place, self.shelf, self.source, self.images, self.display = place, shelf, source, images, display
        self._streams: dict[str, tuple[Stream, Evaluator]] = {}
        self._pools: dict[str, Pool] = {}

    def stream(self, setting: Setting) -> tuple[Stream, Evaluator]:
        """The stream and the test sets of its tasks."""
        key = setting.stream.model_dump_json() + setting.evaluation.model_dump_json()
        if key not in self._streams:
            stream = build.stream(setting.stream, self.shelf, self.source)
            tests = [stream.test(task) for task in range(len(stream.tasks))]
            drop_last, place = setting.evaluation.drop_last, self.place
            evaluator = Evaluator(tests, stream.scale, drop_last=drop_last, device=place.device, dtype=place.dtype)
            self._streams[key] = stream, evaluator
        return self._streams[key]

    def content(self, setting: Setting) -> dict[str, str]:
        """Which data, weights and code of others a row uses, by digests of them."""
        pool = self.pool(setting)
        found = {"source": self.stream(setting)[0].content} | ({} if pool is None else {"pool": pool.content})
        return found | models.content(setting.model)

    def pool(self, setting: Setting) -> Pool | None:
        """The pool, where the setting uses one."""
        stream, _ = self.stream(setting)
        if isinstance(setting.signal, NoSignalSpec) or setting.policy.p == 0:
            return None
        key = setting.pool.model_dump_json() + setting.stream.model_dump_json()
        if key not in self._pools:
            seed = setting.stream.data_seed
            self._pools[key] = build.pool(
                setting.pool, stream, self.shelf, self.place, data_seed=seed, images=self.images
            )
        return self._pools[key]
