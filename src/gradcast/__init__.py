"""gradcast: semi-supervised continual learning with predicted gradients."""

from importlib.metadata import version

from gradcast.errors import GradcastError
from gradcast.gradients import GradientLearner
from gradcast.run import run
from gradcast.spec import Spec
from gradcast.specfile import load, parse

__version__ = version("gradcast")
__all__ = ["GradcastError", "GradientLearner", "Spec", "__version__", "load", "parse", "run"]
