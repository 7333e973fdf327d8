"""What shared and private features of a trained learner look like, on test images of every task."""

import numpy as np
import torch
from jaxtyping import Float

from gradcast.learners.acl.adversary import features
from gradcast.learners.acl.acl import Acl
from gradcast.epochs.lessons import Lessons, Part
from gradcast.epochs.loop import AT_ONCE, EpochLoop
from gradcast.training.loop import Training
from gradcast.results.feature_map import FeatureMap, feature_map

IMAGES = 500  # of a task, at most


def likeness(loop: Training) -> FeatureMap | None:
    """Of a loop's first seed; None where there are no two kinds of features, or no two tasks to be told apart."""
    if not isinstance(loop, EpochLoop) or not isinstance(loop.learner, Acl) or loop.lessons.tasks < 2:
        return None
    found = [_features(loop.learner, loop.lessons, task) for task in range(loop.lessons.tasks)]
    if not all(np.isfinite(both).all() for both in found):
        return None
    shared, private = ([own[kind] for own in found] for kind in range(2))
    return feature_map(shared, private)


@torch.no_grad()
def _features(learner: Acl, lessons: Lessons, task: int) -> Float[np.ndarray, "2 images latent"]:
    """PreparedRun and private ones of images spread over all classes, with the task's own private module."""
    whole, model, theta = lessons.test(task), learner.model, learner.weights_for(task)
    count = int(whole.counts[0])
    chosen = torch.linspace(0, count - 1, min(count, IMAGES)).round().long().to(whole.y.device)
    part = Part(whole.x, whole.index[:, chosen], whole.y[:, chosen], task)
    seen = [
        torch.stack(features(model, model.everything(batch.x, statistics="frozen", theta=theta).z))[:, 0]
        for batch in lessons.batches(part, AT_ONCE[part.y.device.type])
    ]
    return torch.cat(seen, dim=1).double().cpu().numpy()
