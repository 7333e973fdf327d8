"""How many seeds train at once: as many as memory holds."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from gradcast.devices import Place, for_each_rank, free_memory
from gradcast.errors import GradcastError, message_of
from gradcast.learners.learner_entry import LearnerEntry
from gradcast.learners.registry import LEARNERS
from gradcast.signals.registry import SIGNALS
from gradcast.signals.signal_entry import SignalEntry
from gradcast.signals.signal_table import SignalTable
from gradcast.specs import build
from gradcast.specs.spec import Setting
from gradcast.streams.stream import Stream
from gradcast.training.plateau import AT_ONCE

SHARE = 0.75  # of the free memory; the rest is for temporaries, the library's workspaces and other people


def together(setting: Setting, stream: Stream, seeds: Sequence[int], place: Place) -> list[list[int]]:
    """Seeds in groups of nearly equal size, each of which fits into memory at once."""
    need = replica_bytes(setting, stream, place)
    most = max(1, int(SHARE * for_each_rank(free_memory(place.device), place)) // need)
    count = -(-len(seeds) // most)
    return [list(seeds[len(seeds) * i // count : len(seeds) * (i + 1) // count]) for i in range(count)]


def replica_bytes(setting: Setting, stream: Stream, place: Place) -> int:
    """What one replica takes in the last task's steps, where the memories of all earlier tasks pass at once."""
    made = build.network(setting, stream)
    weights = sum(parameter.numel() for parameter in made.parameters())
    kept = getattr(setting.learner, "capacity", 0) or len(stream.tasks) * getattr(setting.learner, "memory", 0)
    recalled, constraints = recalled_images(setting, len(stream.tasks) - 1)
    wide, inner = torch.finfo(place.dtype).bits // 8, torch.finfo(place.inner or place.dtype).bits // 8
    seen = build.seen_shape(setting, stream)
    unlabelled = sum(build.views(signal).count for signal in setting.signals) * setting.policy.batch
    images = recalled + setting.stream.batch + unlabelled
    copies = 8  # of the weights: gradients, what optimizers and signals keep
    if setting.schedule.name == "steps":
        images, copies = 2 * images, copies + 6  # views; velocity, a teacher, weights beside the model's
    if setting.plateau is not None:
        images = max(images, AT_ONCE[place.device.type] // 2)  # an evaluation holds a few layers, no more
        copies += 4 + len(stream.tasks)  # the best epoch, the task's beginning, modules of every task
    numbers = activation_numbers(made, seen, patches=place.device.type == "cuda")
    activations = 5 * images * numbers * inner // 4  # and the gradient under way
    if any("pairs" in SIGNALS[signal.name].traits for signal in setting.signals):
        activations += 5 * unlabelled**2 * wide  # similarities of all views
    rows = (constraints + 2) * weights * (2 * wide + 8)  # memory gradients, together and in float64 for the projection
    beside = 8 * sum(own.weights(table, seen) for table, own in _entries(setting))  # with gradients and moments
    return 2 * kept * math.prod(seen) * wide + activations + rows + (copies * weights + beside) * wide


def _entries(setting: Setting) -> list[tuple[SignalTable, SignalEntry]]:
    """The tables of the row's signals, and what is known of each."""
    found = [(table, SIGNALS[table.name]) for table in setting.signals]
    return [(table, own) for table, own in found if isinstance(own, SignalEntry)]


def recalled_images(setting: Setting, past: int) -> tuple[int, int]:
    """Images of earlier steps that pass in a step after so many tasks, and gradients that are made of them."""
    entry = LEARNERS[setting.learner.name]
    assert isinstance(entry, LearnerEntry)
    return entry.recalled(setting.learner, past, setting.stream.batch)


def activation_numbers(network: nn.Module, shape: Sequence[int], *, patches: bool = False) -> int:
    """How many numbers one image leaves behind for the backward pass.

    ``patches``: with the rows that convolutions as products make (see ``passes/patches.py``).
    """
    seen: dict[int, int] = {}
    images, rows = 2, 0

    kept: list[Tensor] = []  # so that no address is used twice

    def pack(tensor: Tensor) -> Tensor:
        bare = tensor.detach()  # with its graph, which holds this function, it would never be freed
        kept.append(bare)
        if bare.dim() and len(bare) == images:
            seen[bare.data_ptr()] = bare.numel() // images
        return bare

    def count(layer: nn.Module, _: object, y: Tensor) -> None:
        nonlocal rows
        if isinstance(layer, nn.Conv2d) and layer.padding == (0, 0) and layer.kernel_size != (1, 1):
            rows += y[0, 0].numel() * layer.weight[0].numel()

    hooks = [module.register_forward_hook(count) for module in network.modules()] if patches else []
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda bare: bare):
        try:
            network.train()(torch.zeros(images, *shape))
        except Exception as error:  # noqa: BLE001 -- anybody's code may raise anything
            raise GradcastError(
                f"the network {type(network).__name__} fails in training mode on images of shape {tuple(shape)} "
                f"({message_of(error)}); change it, or stream.size and stream.colour"
            ) from None
    for hook in hooks:
        hook.remove()
    return sum(seen.values()) + rows
