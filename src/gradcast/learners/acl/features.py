"""What shared and private features of a trained learner look like, on test images of every task."""

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from gradcast.learners.acl.adversary import features
from gradcast.replicas.replicas import Replicas
from gradcast.results.feature_map import FeatureMap, feature_map
from gradcast.streams.task_data import TaskData

IMAGES = 500  # of a task, at most
AT_ONCE = 64  # images a pass


def feature_map_of(model: Replicas, weights_for: Callable[[int], Tensor], data: TaskData) -> FeatureMap | None:
    """Of the first seed; None where there are no two tasks to be told apart, or numbers are not finite."""
    if data.tasks < 2:
        return None
    found = [_features(model, weights_for(task), data, task) for task in range(data.tasks)]
    if not all(np.isfinite(both).all() for both in found):
        return None
    shared, private = ([own[kind] for own in found] for kind in range(2))
    return feature_map(shared, private)


@torch.no_grad()
def _features(model: Replicas, theta: Tensor, data: TaskData, task: int) -> Float[np.ndarray, "2 images latent"]:
    """Shared and private ones of images spread over all classes, with the task's own private module."""
    whole = data.test(task)
    count = int(whole.counts[0])
    chosen = torch.linspace(0, count - 1, min(count, IMAGES)).round().long()
    portion = whole.ordered(chosen.expand(len(whole.y), -1).numpy())
    seen = [
        torch.stack(features(model, model.everything(batch.x, statistics="frozen", theta=theta).z))[:, 0]
        for batch in data.batches(portion, AT_ONCE)
    ]
    return torch.cat(seen, dim=1).double().cpu().numpy()
