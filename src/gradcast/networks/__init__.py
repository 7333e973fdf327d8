"""Networks: ordinary ``nn.Module`` objects that know nothing of replicas or tasks."""

from gradcast.networks.alexnet import AlexNetLike
from gradcast.networks.conv_large import ConvLarge
from gradcast.networks.efficientnet import EfficientNet
from gradcast.networks.mlp import MLP
from gradcast.networks.resnet import SlimResNet18
from gradcast.networks.wide_resnet import WideResNet

__all__ = ["MLP", "AlexNetLike", "ConvLarge", "EfficientNet", "SlimResNet18", "WideResNet"]
