"""The part of a row's network that is not trained."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from gradcast.devices import Place
from gradcast.errors import GradcastError
from gradcast.networks.staged import split, weights_of
from gradcast.randomness import seeded
from gradcast.specs import build
from gradcast.specs.spec import Setting
from gradcast.streams.stream import Stream


def frozen_stages(setting: Setting, stream: Stream, place: Place, ahead: Mapping[str, Tensor]) -> nn.Module:
    """The stages of a network that are not trained; ``ahead`` are weights of a head start that all seeds share.

    All seeds see the same features, so these stages must not depend on the seed.
    """
    train, made = setting.model.train, []
    assert train != "all", "nothing is frozen"
    for seed in (0, 1):
        with seeded(seed, "model"):
            whole = build.whole_network(setting, stream)
        whole.load_state_dict(dict(ahead), strict=False)
        made.append(split(whole, train, build.heads(setting, stream).outputs).frozen)
    first, second = map(weights_of, made)
    if any(not torch.equal(tensor, second[name]) for name, tensor in first.items()):
        raise GradcastError(
            f"model.train = {train!r} freezes weights that are random and another seed's are others; name trained ones "
            "with model.weights, or make some with head_start.steps and head_start.shared=true"
        )
    return made[0].to(device=place.device, dtype=place.dtype)
