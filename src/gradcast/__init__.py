"""gradcast: semi-supervised continual learning with predicted gradients."""

from gradcast.data.images import Source
from gradcast.data.own_images import from_datasets, own_data
from gradcast.errors import GradcastError
from gradcast.gradients import GradientLearner
from gradcast.runs.run import run
from gradcast.specs.spec import Spec
from gradcast.specs.text import load, parse

__version__ = "0.1.0"
__all__ = [
    "GradcastError",
    "GradientLearner",
    "Source",
    "Spec",
    "__version__",
    "from_datasets",
    "load",
    "own_data",
    "parse",
    "run",
]
