"""Networks: ordinary ``nn.Module`` objects that know nothing of replicas or tasks."""

from gradcast.networks.mlp import MLP
from gradcast.networks.resnet import SlimResNet18

__all__ = ["MLP", "SlimResNet18"]
