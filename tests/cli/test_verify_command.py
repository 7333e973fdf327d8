from pathlib import Path

import numpy as np
import pytest

from tests.cli.process import called
from tests.verify.test_replay import CASES, trace


def test_verify_exits_1_on_a_difference(tmp_path: Path) -> None:
    options = {"tasks": 2, "steps": 3, "classes_per_task": 4, "masked": False, "alpha": 0.4, "loss_scale": 7.0}
    trace(tmp_path / "good.npz", **CASES[0], **options)  # type: ignore[arg-type]
    good = called("verify", "good.npz", cwd=tmp_path)
    assert good.returncode == 0
    mixed = called("verify", "nothing.npz", "good.npz", cwd=tmp_path)
    assert mixed.returncode == 2
    assert "good.npz: 6 steps" in mixed.stdout
    assert good.stdout.startswith("good.npz: 6 steps, largest relative difference ")
    assert good.stdout.endswith("agrees\n")
    arrays = dict(np.load(tmp_path / "good.npz"))
    arrays["params/005"] = arrays["params/005"] * 1.01
    np.savez(tmp_path / "bad.npz", **arrays)
    bad = called("verify", "good.npz", "bad.npz", cwd=tmp_path)
    assert bad.returncode == 1
    assert len(bad.stdout.splitlines()) == 2
    assert "DIFFERS" in bad.stdout.splitlines()[1]


def test_verify_takes_a_device_and_says_when_there_is_none(tmp_path: Path) -> None:
    found = called("verify", "x.npz", "--device", "nonsense", cwd=tmp_path)
    assert found.returncode == 2
    assert "x.npz" in found.stderr


@pytest.mark.golden
def test_verify_refuses_what_it_cannot_replay_in_one_line(golden: Path, tmp_path: Path) -> None:
    found = called("verify", str(golden / "acl_idle_decay.npz"), cwd=tmp_path)
    assert found.returncode == 2
    assert found.stdout == ""
    assert "acl_idle_decay.npz cannot be replayed" in " ".join(found.stderr.split())
    assert "Traceback" not in found.stderr
