"""Pictures of results: each function returns a matplotlib figure, which ``style`` turns into PNG and SVG."""

from gradcast.figures.curves import signal_courses
from gradcast.figures.matrices import accuracy_matrices

__all__ = ["accuracy_matrices", "signal_courses"]
