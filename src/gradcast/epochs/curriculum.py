"""Tasks that differ from seed to seed: what all seeds' have in common, before any of them is made."""

from collections.abc import Sequence
from dataclasses import dataclass

from gradcast.data.images import Shape, Source
from gradcast.devices import Place
from gradcast.epochs.lessons import Lessons, portions
from gradcast.streams.scale import Scale
from gradcast.streams.stream import Stream


@dataclass(frozen=True)
class Curriculum:
    """Classes of one source, ``width`` a task, in the order that ``numpy.random.RandomState(seed)`` gives each seed."""

    source: Source
    tasks: range
    width: int
    validation: float  # share of the training images that is set aside
    scale: Scale
    content: str = ""  # a digest of the images and labels

    @property
    def shape(self) -> Shape:
        """Channels, height, width."""
        return self.source.shape

    def count(self, task: int) -> int:
        """Images of a task to train on, the same in all tasks of all seeds."""
        each, held = portions(self.source, len(self.tasks), self.width, self.validation)
        return each * self.width - held

    def describe(self) -> dict[str, object]:
        """What was made of the source, to be stored with a run; nothing in it depends on the seeds."""
        _, held = portions(self.source, len(self.tasks), self.width, self.validation)
        return {
            "shape": list(self.shape),
            "classes_per_task": self.width,
            "labelled_images": [self.count(task) for task in self.tasks],
            "validation_images": held,
            "mean": list(self.scale.mean),
            "std": list(self.scale.std),
            "classes": list(self.source.classes),
            "class_order": f"numpy.random.RandomState(seed).permutation({len(self.source.classes)})",
        }

    def lessons(self, seeds: Sequence[int], place: Place) -> Lessons:
        """The tasks of these seeds, on the device."""
        return Lessons(
            self.source,
            seeds,
            tasks=len(self.tasks),
            width=self.width,
            validation=self.validation,
            scale=self.scale,
            device=place.device,
            dtype=place.dtype,
        )


Tasks = Stream | Curriculum  # what a row trains on
