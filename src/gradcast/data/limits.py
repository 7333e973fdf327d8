"""How large a file may be: looked at before anything of it is read."""

from pathlib import Path

from gradcast.errors import GradcastError, message_of

LARGEST = 4 * 2**30  # bytes of arrays in one file, unpacked; the largest published one has 0.8 * 2**30
LARGEST_IMAGE = 256 * 2**20  # bytes of an image file
LARGEST_LIST = 64 * 2**20  # bytes of a text file: labels, splits, names of classes
MOST_FILES = 20_000_000  # below one folder


def check_size(path: Path, most: int = LARGEST) -> int:
    """The bytes of a file, which are not too many."""
    try:
        size = path.stat().st_size
    except OSError as error:
        raise GradcastError(f"{path} cannot be read ({_reason(error)}); fetch it again") from None
    if size > most:
        raise GradcastError(
            f"{path} has {size_in_words(size)} and files of its kind at most {size_in_words(most)}; it is not opened: "
            "fetch it again, or choose another"
        )
    return size


def read_list(path: Path) -> list[str]:
    """The lines of a text file without blank ones, and without the mark that some editors put before them."""
    check_size(path, LARGEST_LIST)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        raise GradcastError(f"{path} cannot be read ({_reason(error)}); fetch it again") from None
    return [line.strip() for line in text.splitlines() if line.strip()]


def size_in_words(size: int) -> str:
    """A number of bytes for a person."""
    return f"{size / 2**30:,.1f} GB" if size >= 2**30 else f"{size / 2**20:,.1f} MB"


def _reason(error: OSError | ValueError) -> str:
    return getattr(error, "strerror", None) or message_of(error)
