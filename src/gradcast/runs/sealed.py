"""JSON files with a digest of what they say, read back by a schema: every other content is a ValueError."""

import hashlib
import json
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from gradcast.runs.jsontext import parse_json, to_json
from gradcast.runs.safe_files import write_text

DIGEST = "digest"


class Schema(BaseModel):
    """What a file may say: these keys, of these kinds, and nothing else."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, validate_assignment=True)


Kind = TypeVar("Kind", bound=Schema)


def write_sealed(path: Path, content: Schema) -> None:
    """The content, and a digest of it."""
    said = content.model_dump(mode="json")
    write_text(path, to_json({**said, DIGEST: digest(said)}))


def read_sealed(path: Path, kind: type[Kind]) -> Kind:
    """The content as it was written; a ValueError says what is wrong with it."""
    return unsealed(parse_json(path.read_text(encoding="utf-8")), kind)


def unsealed(said: object, kind: type[Kind]) -> Kind:
    """The same of what the file says."""
    if not isinstance(said, dict) or said.get(DIGEST) != digest({k: v for k, v in said.items() if k != DIGEST}):
        raise ValueError("its digest does not fit")
    return validated({key: value for key, value in said.items() if key != DIGEST}, kind)


def validated(said: object, kind: type[Kind]) -> Kind:
    """What JSON says, by its schema; the ValueError names the first key that is wrong."""
    try:
        return kind.model_validate_json(json.dumps(said))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "it"
        raise ValueError(f"{where}: {first['msg'][:1].lower()}{first['msg'][1:]}") from None


def digest(said: Any) -> str:  # noqa: ANN401 -- whatever JSON can say
    """A short name for facts that JSON can hold, in whatever order they are told."""
    return hashlib.blake2b(json.dumps(said, sort_keys=True, default=str).encode(), digest_size=16).hexdigest()
