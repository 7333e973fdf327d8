"""Passes of R replicas through one network: folded into one batch where that is possible, vmapped for the rest."""
