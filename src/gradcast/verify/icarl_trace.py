"""What a trajectory of iCaRL holds beside weights: random choices, exemplars, their outputs, and answers."""

from collections.abc import Iterator

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from gradcast.learners.icarl import Icarl
from gradcast.memories.exemplars import OUTPUTS, Exemplars
from gradcast.replicas.heads import Heads
from gradcast.replicas.replicas import Replicas
from gradcast.verify.trace import Arrays, Worst


class RecordedDraws:
    """The random choices of a file, step by step."""

    def __init__(self, arrays: Arrays) -> None:
        keys = sorted(key for key in arrays if key.startswith("exemplar_index/"))
        self.choices: Iterator[np.ndarray] = (arrays[key].flatten() for key in keys if arrays[key].size)

    def integers(self, high: Int[np.ndarray, " n"], /) -> Int[np.ndarray, " n"]:
        """The next ones; each has to exist among so many."""
        found = next(self.choices, np.zeros(0, np.int64))
        if found.shape != high.shape or (found >= high).any():
            raise ValueError(f"the recorded choices {found.tolist()} do not fit exemplar sets of {high.tolist()}")
        return found


def recorded_learner(arrays: Arrays, heads: Heads, *, size: int, weight: float, over_batch: bool) -> Icarl:
    """The learner of a file, which chooses as the file says."""
    memory = Exemplars(heads, size, seeds=[0])
    memory.draws = [RecordedDraws(arrays)]
    return Icarl(memory, weight, over_batch)


def compare_exemplars(learner: Icarl, model: Replicas, x: Tensor, task: int, *, arrays: Arrays, worst: Worst) -> None:
    """At a task's end: which of its images ``x`` became exemplars, all outputs, and running statistics."""
    memory, images = learner.memory, learner.memory.images(0)
    for label in range(memory.ends[task] - memory.widths[task], memory.ends[task]):
        chosen = x[torch.from_numpy(arrays[f"exemplars/{label}"]).to(x.device)]
        worst.add(images[label], chosen.cpu().numpy(), f"exemplars of class {label}")
    for label in range(memory.sets):
        start, count = int(memory.starts[label]), len(images[label])
        ours = memory.places.kept[OUTPUTS][0, start : start + count]
        worst.add(ours, arrays.get(f"targets/{task}/{label}"), f"outputs of class {label} after task {task}")
    worst.add(running_statistics(model), arrays.get(f"batchnorm_running/{task}"), f"BatchNorm after task {task}")


def compare_answers(learner: Icarl, model: Replicas, x: Tensor, task: int, *, arrays: Arrays, worst: Worst) -> None:
    """At the end: outputs and classes of one task's test images."""
    score = learner.scorer(model)
    assert score is not None
    logits = model.everything(x, statistics="frozen").z[0]
    worst.add(logits, arrays[f"test_logits/{task}"], f"test outputs of task {task}")
    answers = model.heads.own(score(x), torch.full((x.shape[1],), task, device=x.device)).argmax(-1)[0]
    worst.add(answers.double(), arrays[f"predicted/{task}"], f"answers in task {task}")


def running_statistics(model: Replicas) -> Tensor:
    """All running means and variances of the first replica, in order."""
    return torch.cat([buffer[0].flatten() for name, buffer in model.buffers.items() if "running" in name])
