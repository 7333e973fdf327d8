import json
import os
import subprocess
import sys
from pathlib import Path

from gradcast.bench.fault_kinds import kinds

ROOT = Path(__file__).parents[2]
PLACES = {"two-groups": 1, "few-labels": 1, "table": 1}
PROGRAM = """
import json, sys
from pathlib import Path
import torch
from gradcast.bench.fault_kinds import kinds, load_libraries
from gradcast.bench.faults import strike
torch.set_num_threads(1)
load_libraries()
found = []
for kind, places in json.loads(sys.argv[2]).items():
    # the last operations of a row and of a run, and some before
    some = lambda count: sorted({count - 1 - count * place // (2 * places) for place in range(places)})
    found += strike({kind: kinds()[kind]}, Path(sys.argv[1]), faults=["kill"], choose=some)
print(json.dumps([vars(trial) for trial in found]))
"""


def test_a_run_of_any_kind_that_is_killed_at_a_file_operation_ends_at_the_same_bytes(tmp_path: Path) -> None:
    """Some places of all; ``gradcast bench --faults`` takes every one."""
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), json.dumps(PLACES)]
    env = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=env)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert kinds().keys() == {*PLACES, "one-group", "acl"}
    assert len(found) == sum(PLACES.values())
    assert [trial for trial in found if trial["problem"]] == []
