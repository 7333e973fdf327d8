"""Reports of runs, as pure functions of their directories: Markdown beside every run, one HTML page of several."""

from gradcast.results.report.markdown import write_report
from gradcast.results.report.words import number, verdicts

__all__ = ["number", "verdicts", "write_report"]
