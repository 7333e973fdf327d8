"""Lines of a seed's files, read back: the numbers of its steps, and its accuracies."""

from collections.abc import Iterable

from gradcast.runs.jsontext import parse_json

Line = dict[str, float | int | str]  # a logged step; infinities are words
WORDS = ("inf", "-inf", "nan")


def logged(lines: Iterable[str], tasks: int | None = None) -> list[Line]:
    """Steps as they were written, a JSON object each; a ValueError names the line that is something else."""
    return [_step(number, line, tasks) for number, line in enumerate(lines, 1)]


def _step(number: int, text: str, tasks: int | None) -> Line:
    try:
        line = parse_json(text)
    except ValueError as error:
        raise ValueError(f"line {number}: {getattr(error, 'msg', error)}") from None
    if not isinstance(line, dict) or not all(_is_number(value) for value in line.values()):
        raise ValueError(f"line {number} has not the numbers of a step")
    if "loss" not in line or type(line.get("task")) is not int or line["task"] < 0:
        raise ValueError(f"line {number} is a step without its loss or task")
    if tasks is not None and line["task"] >= tasks:
        raise ValueError(f"line {number} is a step without a known task")
    return line


def _is_number(value: object) -> bool:
    return value in WORDS if isinstance(value, str) else isinstance(value, float | int)


def shares(lines: Iterable[str], tasks: int) -> list[list[float]]:
    """Accuracies as they were written, after the heading; a ValueError names the line that is something else."""
    found = []
    for number, line in enumerate(lines, 2):
        try:
            values = [float(value) for value in line.split(",")[1:]]
        except ValueError:
            raise ValueError(f"line {number} has something that is no number") from None
        if len(values) != tasks:
            raise ValueError(f"line {number} has {len(values)} numbers for {tasks} tasks")
        if not all(0 <= value <= 1 for value in values):
            raise ValueError(f"line {number} has a number that is no share of images, which are between 0 and 1")
        found.append(values)
    return found
