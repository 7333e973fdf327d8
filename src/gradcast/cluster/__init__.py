"""Other processes, GPUs and machines: cells by Ray, one model over several ranks by torchrun."""
