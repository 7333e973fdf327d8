"""Files from their publishers: resumed where a connection broke, named only once their checksum is right."""

import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib import request
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

from gradcast.errors import GradcastError

BLOCK = 2**18  # bytes read at a time
PASSING = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)  # the only 4xx worth another attempt
# No handlers of ftp, file or data: not even a redirection may leave the web.
HANDLERS = (
    request.ProxyHandler,
    request.HTTPHandler,
    request.HTTPSHandler,
    request.HTTPRedirectHandler,
    request.HTTPDefaultErrorHandler,
    request.HTTPErrorProcessor,
    request.UnknownHandler,
)

Progress = Callable[[int, int | None], None]  # bytes that are here, bytes in all where known


@dataclass(frozen=True)
class Download:
    """A file as its publisher offers it; ``unpack`` tells the caller that it is an archive to extract."""

    url: str
    file: str  # its name in the target folder
    checksum: str  # "sha256:<hex>" or "md5:<hex>"
    size: int  # bytes; not one more is taken
    unpack: bool = False


class _Interrupted(Exception):
    """The network failed in a way that may pass; what has arrived is kept."""


def download(
    item: Download,
    target: Path,
    *,
    progress: Progress,
    attempts: int = 5,
    pause: float = 1.0,
    timeout: float = 30.0,
) -> Path:
    """The file below ``target``, fetched unless it is there already.

    Bytes gather in ``<file>.part``, from where this call or the next one goes on after an interruption. It gives up
    after so many ``attempts`` in a row that brought nothing new; the pause between them doubles each time.
    """
    _check(item)
    path, part = target / item.file, target / f"{item.file}.part"
    fault = None
    try:
        target.mkdir(parents=True, exist_ok=True)
        if path.is_file() and _fault(item, path) is None:
            return path
        for _ in range(2):  # wrong bytes may be a stale part or a bad line: once more from scratch
            _complete(item, part, progress=progress, attempts=attempts, pause=pause, timeout=timeout)
            with open(part, "r+b") as file:
                os.fsync(file.fileno())
            fault = _fault(item, part)
            if fault is None:
                part.replace(path)
                return path
            part.unlink()
    except OSError as error:  # of the disk: those of the network are an _Interrupted by now
        raise GradcastError(
            f"{item.url} cannot be saved as {path} ({error.strerror or error}); "
            "make room or choose a folder that you may write to, and run again to go on from here"
        ) from None
    raise GradcastError(
        f"{item.file} from {item.url} {fault}; ask its publisher whether it changed, or {_by_hand(path)}"
    )


def _check(item: Download) -> None:
    """Refuse what no attempt can fetch."""
    try:
        parts = urlsplit(item.url)
        fetchable = (
            parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
        )
    except ValueError:
        fetchable = False
    if not fetchable or not item.url.isascii() or re.search(r"[\s\x00-\x1f\x7f]", item.url):
        raise GradcastError(f"{item.url!r} is not an http or https address; correct the download's url")
    if item.file in ("", ".", "..") or re.search(r"[/\\:\0]", item.file):
        raise GradcastError(f"{item.url} cannot be saved as {item.file!r}; give the download a plain file name")
    if not re.fullmatch("sha256:[0-9a-fA-F]{64}|md5:[0-9a-fA-F]{32}", item.checksum):
        raise GradcastError(f"{item.url} has the checksum {item.checksum!r}; write it as sha256:<hex> or md5:<hex>")


def _fault(item: Download, path: Path) -> str | None:
    """What is wrong with these bytes, if anything."""
    kind = item.checksum.partition(":")[0]
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, lambda: hashlib.new(kind, usedforsecurity=False))
        size = file.tell()
    found = f"{kind}:{digest.hexdigest()}"
    if found != item.checksum.lower():
        return f"has the checksum {found} where {item.checksum} was expected"
    if size != item.size:
        return f"has {size} bytes where {item.size} were expected"
    return None


def _complete(item: Download, part: Path, *, progress: Progress, attempts: int, pause: float, timeout: float) -> None:
    """Attempt after attempt until the part is as long as the server says."""
    furthest, barren = _size(part), 0
    while True:
        try:
            return _receive(item, part, progress=progress, timeout=timeout)
        except _Interrupted as error:
            reached = _size(part)
            barren = 1 if reached > furthest else barren + 1
            furthest = max(furthest, reached)
            if barren >= attempts:
                raise GradcastError(
                    f"{item.url} could not be fetched ({error}); run again later to go on from here, "
                    f"or {_by_hand(part.with_suffix(''))}"
                ) from None
        time.sleep(pause * 2 ** (barren - 1))


def _receive(item: Download, part: Path, *, progress: Progress, timeout: float) -> None:
    """Ask once for what is missing and append it to the part."""
    start = _size(part)
    if start >= item.size > 0:
        if start == item.size:
            return  # stopped just before it was verified
        start = 0
    response = _open(item, part, start=start, timeout=timeout)
    if response is None:
        return
    with response:
        total, length = None, response.length
        if response.status == HTTPStatus.PARTIAL_CONTENT:
            first, total = _range(response)
            if first != start:
                part.unlink(missing_ok=True)
                raise _Interrupted("the server sent another range of bytes than the one asked for")
        else:
            start = 0  # the server does not know ranges
        if total is None:
            total = item.size if length is None else start + length
        if total != item.size:  # a log-in page, perhaps: not worth the part
            raise _Interrupted(f"the server offers {total} bytes where {item.size} were expected")
        done, rest = start, total - start
        with open(part, "ab" if start else "wb") as file:
            for block in _blocks(response, rest if length is None else min(rest, length)):
                file.write(block)
                done += len(block)
                progress(done, total)
        if done < total:
            raise _Interrupted(f"the connection closed after {done} of {total} bytes")


def _open(item: Download, part: Path, *, start: int, timeout: float) -> HTTPResponse | None:
    """The answer to a request for all bytes from ``start`` on; None if there are none beyond it."""
    opener = request.OpenerDirector()
    for handler in HANDLERS:
        opener.add_handler(handler())
    headers = {"User-Agent": "gradcast"} | ({"Range": f"bytes={start}-"} if start else {})
    try:
        response: HTTPResponse = opener.open(request.Request(item.url, headers=headers), timeout=timeout)
    except HTTPError as error:
        error.close()
        if error.code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and start:
            return None  # complete or too long: the checksum decides
        answer = " ".join(f"{error.code} {error.reason}".split())
        if error.code >= 500 or error.code in PASSING:
            raise _Interrupted(f"the server answered {answer}") from None
        raise GradcastError(f"{item.url} answered {answer}; {_by_hand(part.with_suffix(''))}") from None
    except (OSError, HTTPException, UnicodeError) as error:
        raise _interrupted(error) from None
    return response


def _range(response: HTTPResponse) -> tuple[int | None, int | None]:
    """The first byte of a partial answer and the length of the whole file, where they are told."""
    told = re.fullmatch(r"bytes (\d{1,18})-\d+/(\d{1,18}|\*)", response.getheader("Content-Range", "").strip())
    if told is None:
        return None, None
    return int(told[1]), None if told[2] == "*" else int(told[2])


def _blocks(response: HTTPResponse, count: int) -> Iterator[bytes]:
    """The body as it arrives, up to ``count`` bytes; every block is handed on before anything can go wrong."""
    try:
        while count > 0:
            block = response.read1(min(BLOCK, count))
            if not block:
                return
            count -= len(block)
            yield block
    except (OSError, HTTPException) as error:
        raise _interrupted(error) from None


def _interrupted(error: OSError | HTTPException | UnicodeError) -> _Interrupted:
    cause = error.reason if isinstance(error, URLError) else error
    return _Interrupted(" ".join(str(cause).split()) or type(cause).__name__)


def _size(part: Path) -> int:
    return part.stat().st_size if part.is_file() else 0


def _by_hand(path: Path) -> str:
    return f"download it by hand and put it at {path}"
