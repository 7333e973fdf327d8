"""Pictures of results: each function returns a matplotlib figure, which ``style`` turns into PNG and SVG."""

from gradcast.results.figures.curves import signal_courses
from gradcast.results.figures.matrices import accuracy_matrices

__all__ = ["accuracy_matrices", "signal_courses"]
