import json
import os
import subprocess
import sys
from pathlib import Path

from tests.runs.checkpoint.killing import LEARNERS

ROOT = Path(__file__).parents[3]


def test_rows_that_are_killed_at_any_moment_end_at_the_same_bytes(tmp_path: Path) -> None:
    """Ten kills in all; what a run left when it died is all that the next one has."""
    command = [sys.executable, "-m", "tests.runs.checkpoint.killing", str(tmp_path), "2"]
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert set(found) == set(LEARNERS)
    for learner in LEARNERS:
        assert found[learner]["kills"] == 2
        assert all(found[learner]["same"]), learner
        assert found[learner]["files"] == 6
    assert sum(found[learner]["resumed"] for learner in LEARNERS) >= 4
