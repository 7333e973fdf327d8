import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from gradcast.bench.faults import difference, snapshot
from gradcast.cluster.on_ray import address_of, session
from gradcast.errors import GradcastError

needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="pip install 'gradcast[ray]' to run this")
ROWS = "ewc,gem,gem-predicted"
TABLE = ("reproduce", "E1", "--quick", "--rows", ROWS, "--set", "stream.source=digits", "--set", "pool.name=patches")
ENVIRONMENT = {**os.environ, "RAY_AUTH_MODE": "disabled", "COLUMNS": "80", "PYTHONWARNINGS": "default"}


def test_an_address_is_ray_or_that_of_a_cluster() -> None:
    assert address_of("ray") is None
    assert address_of("ray://10.0.0.1:6379") == "10.0.0.1:6379"
    for wrong in ("slurm", "ray://", "ray:10.0.0.1"):
        with pytest.raises(GradcastError, match="use ray, or ray://HOST:PORT"):
            address_of(wrong)


def test_without_ray_a_sentence_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(GradcastError, match=r"pip install 'gradcast\[ray\]'"), session("ray"):
        pass


@needs_ray
def test_an_address_where_nobody_answers_is_a_sentence_at_once() -> None:
    started = time.monotonic()
    found = gradcast("run", "digits", "--on", "ray://127.0.0.1:1")
    assert found.returncode == 2
    assert "no Ray cluster answers at 127.0.0.1:1" in found.stderr
    assert "Traceback" not in found.stderr
    assert time.monotonic() - started < 60


def gradcast(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gradcast", *arguments],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        timeout=170,
        check=False,
    )


def started(*arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "gradcast", *arguments]
    return subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


@pytest.fixture
def cluster() -> Iterator[subprocess.Popen[str]]:
    """Two nodes of one CPU each, ``two_nodes.py``; a line to its standard input kills the second."""
    place = Path(__file__).with_name("two_nodes.py")
    made = subprocess.Popen(
        [sys.executable, str(place)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT
    )
    try:
        yield made
    finally:
        made.communicate(timeout=60)  # closes standard input, which ends it


def wait_for_seeds(out: Path, count: int) -> None:
    for _ in range(1200):
        if len(list(out.glob("store/*/seed-*"))) >= count:
            return
        time.sleep(0.1)
    raise AssertionError("nothing was trained")


@needs_ray
def test_a_killed_node_and_a_killed_command_change_no_file_but_times(
    tmp_path: Path, cluster: subprocess.Popen[str]
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    assert cluster.stdout is not None
    assert cluster.stdin is not None
    address = cluster.stdout.readline().strip()
    plain = gradcast(*TABLE, "--threads", "1", "--out", str(here))
    assert plain.returncode == 0, plain.stderr
    ray = (*TABLE, "--on", f"ray://{address}", "--out", str(there))
    first = started(*ray)
    wait_for_seeds(there, 2)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    second = started(*ray)
    wait_for_seeds(there, 4)
    cluster.stdin.write("kill\n")
    cluster.stdin.flush()
    _, told = second.communicate(timeout=150)
    assert second.returncode == 0, told.decode()
    assert difference(snapshot(here), snapshot(there)) == ""
