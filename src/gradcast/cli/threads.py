"""How many CPU threads a command takes where nobody says."""

import torch
from rich.console import Console

from gradcast.devices import busy, own_cores, use_threads


def choose_threads(given: int | None, device: str = "auto", *, elsewhere: bool = False) -> int:
    """``--threads``, else all cores; but one on a busy CPU, with a sentence that says so.

    ``elsewhere``: other processes train, with threads of their own, so nothing is decided here. Threads meet
    after every operation. Where one has to wait for its core, all of them wait: beside one busy process, two threads
    on two cores were two to three times as slow as one.
    """
    on_cpu = not elsewhere and (device == "cpu" or not torch.cuda.is_available())
    if given is None and on_cpu and own_cores() > 1 and busy():
        said = f"The CPU is busy with other work, so one thread is used; --threads {own_cores()} takes every core."
        Console(stderr=True, highlight=False).print(f"[dim]{said}", soft_wrap=True)
        given = 1
    return use_threads(given)
