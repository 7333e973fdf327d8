"""Trains rows in processes of their own and kills them: run as a program, it prints what came of it as JSON.

The package is imported once; every attempt is a fork. Arguments: a folder, and kills for each learner.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import torch
import torch._dynamo  # optimizers would import it in every fork

from gradcast.runs.checkpoint.keeper import Safety
from gradcast.specs.spec import Spec
from tests.runs.checkpoint.scene import ROW, Scene, results, tiny

LEARNERS = {"finetune": "rotation", "gem": "predicted", "dcl": "distil", "a-gem": "one-hot", "er": "noise"}


def attempt(scene: Scene, spec: Spec, place: str) -> int:
    """A process that trains the row to its end, unless somebody kills it."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with scene.directory(spec, place).locked():
                scene.train(spec, place, Safety(0, 3))
            code = 0
        finally:  # never back into the code of the process that forked
            os._exit(code)
    return child


def killed(child: int, after: float) -> bool:
    """Whether the process was still at work then."""
    time.sleep(after)
    os.kill(child, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def trial(scene: Scene, learner: str, kills: int, chance: random.Random) -> dict[str, object]:
    """An uninterrupted row, and one that is killed again and again."""
    spec = tiny(f"learner.name={learner}", f"signal.name={LEARNERS[learner]}", "stream.samples=60", "stream.epochs=3")
    scene.shared.content(spec.rows[0].setting)  # made here, it is there in every fork
    begun = time.monotonic()
    os.waitpid(attempt(scene, spec, "whole"), 0)
    whole, seconds = results(scene.directory(spec, "whole").path / ROW), time.monotonic() - begun
    done, round_, resumed, same = 0, 0, 0, []
    while done < kills:
        place = f"{learner}-{round_}"
        round_ += 1
        row = scene.directory(spec, place).path / ROW
        while done < kills and killed(attempt(scene, spec, place), chance.uniform(0.0, 0.7) * seconds):
            done += 1
            resumed += bool(list(row.glob("checkpoint-*.safetensors")))
        os.waitpid(attempt(scene, spec, place), 0) if not (row / "env.json").is_file() else None
        same.append(results(row) == whole)
    return {"kills": done, "resumed": resumed, "same": same, "files": len(whole)}


def main() -> None:
    torch.set_num_threads(1)
    scene, chance = Scene(Path(sys.argv[1])), random.Random(0)
    found = {learner: trial(scene, learner, int(sys.argv[2]), chance) for learner in LEARNERS}
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
