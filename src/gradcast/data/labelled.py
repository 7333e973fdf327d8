"""Labelled image files: which file belongs to which class and split."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from gradcast.data.scan import ImageFiles, LeftOut
from gradcast.errors import GradcastError


@dataclass(frozen=True)
class LabelledFiles:
    """Files to train and to test on with their labels; ``left_out`` are images of neither."""

    name: str
    train: ImageFiles
    train_y: list[int]
    test: ImageFiles
    test_y: list[int]
    classes: tuple[str, ...]
    left_out: LeftOut = field(default_factory=dict)

    def __post_init__(self) -> None:
        for part, labels in (("training", self.train_y), ("test", self.test_y)):
            if labels:
                self.check_classes(labels, part)

    def check_classes(self, labels: Sequence[int], part: str) -> None:
        """Refuse a class without any image in a part."""
        empty = sorted(set(range(len(self.classes))) - set(labels))
        if empty:
            raise GradcastError(
                f"class {self.classes[empty[0]]!r} of {self.name} has no readable {part} image; "
                "add one or remove the class"
            )
