"""Networks: ordinary ``nn.Module`` objects that know nothing of replicas or tasks."""

from gradcast.networks.mlp import MLP

__all__ = ["MLP"]
