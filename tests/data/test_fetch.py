import hashlib
import random
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import SO_LINGER, SOL_SOCKET

import pytest

from gradcast.data.fetch import Download, download
from gradcast.errors import GradcastError

CONTENT = random.Random(0).randbytes(300_000)
HALF = len(CONTENT) // 2
SHA256 = "sha256:" + hashlib.sha256(CONTENT).hexdigest()


@dataclass
class Publisher:
    """A server that plays its script, one word a request, and then serves properly."""

    url: str = ""
    content: bytes = CONTENT
    script: list[str] = field(default_factory=list)
    ranges: list[str | None] = field(default_factory=list)  # what each request asked for
    sent: list[int] = field(default_factory=list)  # bytes of body in each answer
    end: threading.Event = field(default_factory=threading.Event)

    def item(self, *, checksum: str = SHA256, size: int | None = None) -> Download:
        return Download(self.url, "set.bin", checksum, len(CONTENT) if size is None else size)


def handler(publisher: Publisher) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *arguments: object) -> None:
            """Silent."""

        def do_GET(self) -> None:
            publisher.ranges.append(self.headers["Range"])
            publisher.sent.append(0)
            word = publisher.script.pop(0) if publisher.script else "serve"
            with suppress(ConnectionError):
                if word.isdigit():
                    self.send_error(int(word))
                elif "://" in word:
                    self.send_response(302)
                    self.send_header("Location", word)
                    self.end_headers()
                else:
                    self.answer(word)

        def answer(self, word: str) -> None:
            start = self.start(word)
            total = len(publisher.content)
            if start >= total > 0:
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{total}")
                self.end_headers()
                return
            self.send_response(206 if start else 200)
            if start:
                shown = start + 1 if word == "shifted" else start
                self.send_header("Content-Range", f"bytes {shown}-{total - 1}/{'*' if word == 'starred' else total}")
            if word == "chunked":
                self.send_header("Transfer-Encoding", "chunked")
            elif word not in ("unsized", "endless"):
                self.send_header("Content-Length", str(total - start))
            self.end_headers()
            body = publisher.content[start:]
            self.body(word, body[:HALF] if word in ("drop", "truncate", "stall", "chunked", "unsized") else body)

        def start(self, word: str) -> int:
            asked = self.headers["Range"]
            return 0 if asked is None or word == "ignore" else int(asked.removeprefix("bytes=").removesuffix("-"))

        def body(self, word: str, body: bytes) -> None:
            if word == "corrupt":
                body = bytes([body[0] ^ 1]) + body[1:]
            if word == "chunked":
                self.wfile.write(f"{len(body):x}\r\n".encode())  # and never the closing chunk
            self.wfile.write(body)
            publisher.sent[-1] = len(body)
            while word == "endless":  # until the other side hangs up
                self.wfile.write(body)
                publisher.sent[-1] += len(body)
            if word == "stall":
                publisher.end.wait(5)
            if word == "drop":  # a reset instead of an orderly end
                self.connection.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
                self.connection.close()

    return Handler


@contextmanager
def serving(publisher: Publisher) -> Iterator[Publisher]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler(publisher))
    server.daemon_threads = False  # so that closing joins them
    publisher.url = f"http://127.0.0.1:{server.server_port}/set.bin"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield publisher
    finally:
        publisher.end.set()
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def publisher(monkeypatch: pytest.MonkeyPatch) -> Iterator[Publisher]:
    monkeypatch.setenv("no_proxy", "*")
    with serving(Publisher()) as publisher:
        yield publisher


def fetch(item: Download, target: Path, *, attempts: int = 3, timeout: float = 5.0) -> Path:
    return download(item, target, progress=lambda done, total: None, attempts=attempts, pause=0.001, timeout=timeout)


def test_fetches_and_tells_how_far_it_is(publisher: Publisher, tmp_path: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    path = download(publisher.item(), tmp_path / "a" / "b", progress=lambda done, total: seen.append((done, total)))
    assert path == tmp_path / "a" / "b" / "set.bin"
    assert path.read_bytes() == CONTENT
    assert [file.name for file in path.parent.iterdir()] == ["set.bin"]
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


@pytest.mark.parametrize("checksum", [SHA256.upper().replace("SHA", "sha"), "md5:" + hashlib.md5(CONTENT).hexdigest()])
def test_a_finished_file_is_not_fetched_again(publisher: Publisher, tmp_path: Path, checksum: str) -> None:
    for _ in range(2):
        fetch(publisher.item(checksum=checksum, size=len(CONTENT)), tmp_path)
    assert publisher.ranges == [None]


def test_a_wrong_file_of_that_name_is_replaced(publisher: Publisher, tmp_path: Path) -> None:
    (tmp_path / "set.bin").write_bytes(b"something else")
    assert fetch(publisher.item(), tmp_path).read_bytes() == CONTENT


def test_an_empty_file(publisher: Publisher, tmp_path: Path) -> None:
    publisher.content = b""
    item = publisher.item(checksum="sha256:" + hashlib.sha256(b"").hexdigest(), size=0)
    assert fetch(item, tmp_path).read_bytes() == b""


@pytest.mark.parametrize(
    ("word", "size"), [("truncate", None), ("stall", None), ("chunked", None), ("unsized", len(CONTENT))]
)
def test_asks_only_for_what_is_missing(publisher: Publisher, tmp_path: Path, word: str, size: int | None) -> None:
    publisher.script = [word]
    path = fetch(publisher.item(size=size), tmp_path, timeout=0.3)
    assert path.read_bytes() == CONTENT
    assert publisher.ranges == [None, f"bytes={HALF}-"]
    assert publisher.sent == [HALF, len(CONTENT) - HALF]


def test_goes_on_after_a_reset(publisher: Publisher, tmp_path: Path) -> None:
    publisher.script = ["drop"]
    assert fetch(publisher.item(), tmp_path).read_bytes() == CONTENT
    assert len(publisher.ranges) == 2


def test_a_redirection_is_asked_for_the_same_bytes(publisher: Publisher, tmp_path: Path) -> None:
    publisher.script = ["truncate", publisher.url]
    assert fetch(publisher.item(), tmp_path).read_bytes() == CONTENT
    assert publisher.ranges == [None, f"bytes={HALF}-", f"bytes={HALF}-"]


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/set.bin", "file:///etc/passwd"])
def test_a_redirection_cannot_leave_the_web(publisher: Publisher, tmp_path: Path, url: str) -> None:
    publisher.script = [url]
    with pytest.raises(GradcastError, match=r"unknown url type: ftp|'file:///etc/passwd' is not allowed"):
        fetch(publisher.item(), tmp_path, attempts=1)


def test_the_next_call_goes_on(publisher: Publisher, tmp_path: Path) -> None:
    publisher.script = ["truncate"]
    with pytest.raises(GradcastError, match=f"closed after {HALF} of {len(CONTENT)} bytes.*run again later"):
        fetch(publisher.item(), tmp_path, attempts=1)
    assert not (tmp_path / "set.bin").exists()
    assert fetch(publisher.item(), tmp_path).read_bytes() == CONTENT
    assert publisher.ranges == [None, f"bytes={HALF}-"]


def test_a_server_that_ignores_ranges_starts_over(publisher: Publisher, tmp_path: Path) -> None:
    publisher.script = ["truncate", "ignore"]
    assert fetch(publisher.item(), tmp_path).read_bytes() == CONTENT
    assert publisher.sent == [HALF, len(CONTENT)]


def test_another_range_than_asked_for_starts_over(publisher: Publisher, tmp_path: Path) -> None:
    publisher.script = ["truncate", "shifted"]
    assert fetch(publisher.item(), tmp_path).read_bytes() == CONTENT
    assert publisher.ranges == [None, f"bytes={HALF}-", None]


def test_a_range_of_untold_total(publisher: Publisher, tmp_path: Path) -> None:
    publisher.script = ["truncate", "starred"]
    assert fetch(publisher.item(), tmp_path).read_bytes() == CONTENT
    assert publisher.ranges == [None, f"bytes={HALF}-"]


@pytest.mark.parametrize(
    ("part", "ranges"),
    [(CONTENT, []), (CONTENT + b"!", [None]), (b"stale", ["bytes=5-", None])],
    ids=["complete", "too long", "of another file"],
)
def test_parts_that_were_left(publisher: Publisher, tmp_path: Path, part: bytes, ranges: list[str | None]) -> None:
    (tmp_path / "set.bin.part").write_bytes(part)
    assert fetch(publisher.item(), tmp_path).read_bytes() == CONTENT
    assert publisher.ranges == ranges
    assert [file.name for file in tmp_path.iterdir()] == ["set.bin"]


def test_corrupt_bytes_are_fetched_once_more(publisher: Publisher, tmp_path: Path) -> None:
    publisher.script = ["corrupt"]
    assert fetch(publisher.item(), tmp_path).read_bytes() == CONTENT
    assert publisher.ranges == [None, None]


def test_corrupt_bytes_never_get_the_name(publisher: Publisher, tmp_path: Path) -> None:
    publisher.script = ["corrupt", "corrupt", "corrupt"]
    found = hashlib.sha256(bytes([CONTENT[0] ^ 1]) + CONTENT[1:]).hexdigest()
    with pytest.raises(GradcastError, match=f"set.bin from .*checksum sha256:{found} where {SHA256} was") as caught:
        fetch(publisher.item(), tmp_path)
    assert publisher.url in str(caught.value)
    assert len(publisher.ranges) == 2
    assert list(tmp_path.iterdir()) == []


def test_an_answer_of_another_size_does_not_cost_the_part(publisher: Publisher, tmp_path: Path) -> None:
    (tmp_path / "set.bin.part").write_bytes(CONTENT[:HALF])
    publisher.content = b"<html>log in</html>"
    publisher.script = ["ignore", "ignore"]
    with pytest.raises(GradcastError, match=f"offers 19 bytes where {len(CONTENT)} were expected"):
        fetch(publisher.item(size=len(CONTENT)), tmp_path, attempts=2)
    assert (tmp_path / "set.bin.part").read_bytes() == CONTENT[:HALF]


@pytest.mark.parametrize("code", ["503", "500", "429", "408"])
def test_waits_for_a_busy_server(
    publisher: Publisher, tmp_path: Path, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    naps: list[float] = []
    monkeypatch.setattr(time, "sleep", naps.append)
    publisher.script = [code] * 3
    item = publisher.item()
    path = download(item, tmp_path, progress=lambda done, total: None, attempts=4, pause=0.5)
    assert path.read_bytes() == CONTENT
    assert naps == [0.5, 1, 2]


def test_gives_up_on_a_server_that_stays_busy(publisher: Publisher, tmp_path: Path) -> None:
    publisher.script = ["503"] * 9
    with pytest.raises(GradcastError, match=r"answered 503 Service Unavailable.*by hand and put it at .*set.bin$"):
        fetch(publisher.item(), tmp_path, attempts=3)
    assert len(publisher.ranges) == 3


def test_attempts_that_bring_something_do_not_count(publisher: Publisher, tmp_path: Path) -> None:
    (tmp_path / "set.bin.part").write_bytes(CONTENT[:10])
    publisher.script = ["503", "truncate", "503"]
    assert fetch(publisher.item(), tmp_path, attempts=3).read_bytes() == CONTENT
    assert publisher.ranges == ["bytes=10-"] * 2 + [f"bytes={HALF + 10}-"] * 2


@pytest.mark.parametrize("code", ["404", "403", "416"])
def test_a_refusal_is_final(publisher: Publisher, tmp_path: Path, code: str) -> None:
    publisher.script = [code]
    with pytest.raises(GradcastError, match=f"answered {code} .*; download it by hand and put it at") as caught:
        fetch(publisher.item(), tmp_path)
    assert publisher.url in str(caught.value)
    assert str(tmp_path / "set.bin") in str(caught.value)
    assert len(publisher.ranges) == 1


def test_nobody_answers(publisher: Publisher, tmp_path: Path) -> None:
    with serving(Publisher()) as other:
        pass
    with pytest.raises(GradcastError, match=r"could not be fetched \(.*refused\)"):
        fetch(other.item(), tmp_path)


def test_a_disk_without_room_keeps_the_part(publisher: Publisher, tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (HALF, limits[1]))
    try:
        with pytest.raises(GradcastError, match=r"cannot be saved as .*set.bin \(.*\); make room"):
            fetch(publisher.item(), tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert len(publisher.ranges) == 1
    kept = (tmp_path / "set.bin.part").stat().st_size
    assert 0 < kept <= HALF
    assert fetch(publisher.item(), tmp_path).read_bytes() == CONTENT
    assert publisher.ranges[1:] == [f"bytes={kept}-"]


def test_a_target_that_is_no_folder(publisher: Publisher, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(GradcastError, match="choose a folder that you may write to"):
        fetch(publisher.item(), tmp_path / "file" / "below")
    assert publisher.ranges == []


@pytest.mark.parametrize(
    "url", ["ftp://a/b", "file:///etc/passwd", "data:,x", "/b", "http:///b", "http://a:b/", "http://a/\nb", "http://[a"]
)
def test_only_the_web(tmp_path: Path, url: str) -> None:
    with pytest.raises(GradcastError, match="is not an http or https address"):
        fetch(Download(url, "b", SHA256, 1), tmp_path)


@pytest.mark.parametrize("file", ["", "..", "a/b", "/a", "a\\b", "C:a"])
def test_only_plain_names(tmp_path: Path, file: str) -> None:
    with pytest.raises(GradcastError, match="give the download a plain file name"):
        fetch(Download("http://127.0.0.1/", file, SHA256, 1), tmp_path)


@pytest.mark.parametrize("checksum", ["", "sha256:", "md5:" + "g" * 32, "sha1:" + "0" * 40, "0" * 64])
def test_only_known_checksums(tmp_path: Path, checksum: str) -> None:
    with pytest.raises(GradcastError, match="write it as sha256:<hex> or md5:<hex>"):
        fetch(Download("http://127.0.0.1/", "a", checksum, 1), tmp_path)


def test_an_endless_body_of_unknown_length_is_cut_off_at_the_known_size(publisher: Publisher, tmp_path: Path) -> None:
    publisher.script += ["endless"]
    assert fetch(publisher.item(), tmp_path).read_bytes() == CONTENT  # what came before is right
    publisher.script += ["endless", "endless"]
    publisher.content = CONTENT[::-1]
    (tmp_path / "set.bin").unlink()
    with pytest.raises(GradcastError, match="has the checksum"):
        fetch(publisher.item(), tmp_path)
    assert not list(tmp_path.iterdir())
