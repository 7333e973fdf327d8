from pathlib import Path

import pytest

from tests.cli.process import called


@pytest.mark.parametrize("replicas", ["", "two", "1,0"])
def test_bench_refuses_what_is_no_list_of_numbers(replicas: str, tmp_path: Path) -> None:
    found = called("bench", "--replicas", replicas, cwd=tmp_path)
    assert found.returncode == 2
    assert "as in --replicas 1,4,16" in found.stderr


def test_bench_refuses_parts_that_do_not_exist(tmp_path: Path) -> None:
    found = called("bench", "--only", "steps,stpes", cwd=tmp_path)
    assert found.returncode == 2
    assert "there are steps, growth, streams, checkpoints, epochs, few-labels, head-start" in " ".join(
        found.stderr.split()
    )
