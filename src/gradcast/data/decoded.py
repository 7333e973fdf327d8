"""Image files decoded into arrays of the cache, and words for those that were not."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Bool

from gradcast.data.array_file import array_file
from gradcast.data.files import Track, decode
from gradcast.data.images import Shape
from gradcast.data.limits import size_in_words
from gradcast.data.scan import ImageFiles, LeftOut, maybe_pictures
from gradcast.errors import GradcastError, warn

NAMED = 5  # files named in a warning; `gradcast data check` names all


def decoded_size(files: ImageFiles, shape: Shape) -> int:
    """Bytes that the decoded images take."""
    return len(files) * int(np.prod(shape))


def write_decoded(
    files: ImageFiles, shape: Shape, folder: Path, prefix: str = "", *, squash: bool = False, track: Track
) -> Bool[np.ndarray, " n"]:
    """Decode a collection into PREFIXx.npy without its unreadable images, whose names and reasons go to PREFIXbad.npy.

    Returns which ones were good.
    """
    bad: dict[str, str] = {}
    size = size_in_words(decoded_size(files, shape))
    what = f"decoding {files.root.name} to {shape[1]} x {shape[2]} pixels, {size} in the cache"
    with array_file(folder / f"{prefix}x.npy", shape, len(files)) as append:
        images = decode(files, shape, how="squash" if squash else "fit", track=track, what=what)
        for name, image in zip(files.names, images, strict=True):
            if isinstance(image, str):
                bad[name] = image
            else:
                append(image[None])
    if len(bad) == len(files):
        raise GradcastError(f"none of the {len(files)} image files in {files.root} can be read; choose another folder")
    np.save(folder / f"{prefix}bad.npy", np.array(sorted(bad.items()), dtype=np.str_).reshape(-1, 2))
    return np.array([name not in bad for name in files.names], dtype=bool)


def warn_of_unreadable(files: ImageFiles, bad: np.ndarray) -> None:
    """Name files that could not be decoded."""
    for name, reason in bad[:NAMED].tolist():
        warn(f"skipped {files.root / name}: {reason}")
    if len(bad) > NAMED:
        warn(f"skipped {len(bad) - NAMED} more unreadable images in {files.root}")


def warn_of_left_out(root: Path, *left_out: LeftOut) -> None:
    """Count and name what lies beside the images and may be wanted too."""
    found = {reason: names for part in left_out for reason, names in maybe_pictures(part).items()}
    if found:
        warn(f"left out of {root}: {in_sentence(found)}")


def in_sentence(left_out: Mapping[str, Sequence[str]]) -> str:
    """Counts by reason, each with some of the names."""
    return "; ".join(
        f"{len(names):,} {reason} ({', '.join(names[:NAMED])}{', ...' if len(names) > NAMED else ''})"
        for reason, names in sorted(left_out.items())
    )
