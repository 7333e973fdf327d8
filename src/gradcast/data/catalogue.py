"""Every dataset by name: what it is, where it lies, who may use it, how it is read and from where it comes."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from gradcast.data import pool_images as pools
from gradcast.data.cifar import find_cifar, read_cifar
from gradcast.data.fetch import Download
from gradcast.data.idx import CLOTHES, DIGITS, find_idx, read_idx_dataset
from gradcast.data.images import Source
from gradcast.data.labelled import LabelledFiles
from gradcast.data.mini_imagenet import class_folders, find_caches, find_mini_imagenet, read_caches
from gradcast.data.scan import ImageFiles
from gradcast.data.svhn import find_svhn, read_svhn
from gradcast.data.tiny_imagenet import FOLDER as TINY_FOLDER
from gradcast.data.tiny_imagenet import find_tiny_imagenet, tiny_imagenet, tiny_imagenet_train

RESEARCH = "research use; terms of each photograph's owner apply"


@dataclass(frozen=True)
class Dataset:
    """One published dataset.

    ``find`` gives its files (or its one folder or archive) below a data folder, nothing when incomplete. A labelled
    dataset has ``read`` (arrays) or ``files`` (labelled image files); a pool of image files has ``pool``.
    """

    name: str
    title: str
    licence: str
    home: str
    layout: str
    find: Callable[[Path], list[Path]]
    read: Callable[[list[Path]], Source] | None = None
    files: Callable[[Path], LabelledFiles] | None = None
    pool: Callable[[Path], ImageFiles] | None = None
    downloads: tuple[Download, ...] = ()
    expected: tuple[int, int, int] | None = None  # training images, test images, classes
    images: int | None = None  # of a pool without labels, where it is whole

    @property
    def labelled(self) -> bool:
        """Whether a stream can be made of it."""
        return self.read is not None or self.files is not None

    @property
    def pool_size(self) -> int | None:
        """Images of its pool where it is whole, if the publisher says."""
        return self.images if self.expected is None else self.expected[0]


def _idx(folder: str) -> Callable[[Path], list[Path]]:
    return lambda data: find_idx(data / folder) or []


def _cifar(name: str) -> Dataset:
    digits = name.removeprefix("cifar-")
    python, binary = ("batches-py", "batches-bin") if digits == "10" else ("python", "binary")
    sums = {
        "10": "sha256:6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
        "100": "sha256:85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7",
    }
    sizes = {"10": 170_498_071, "100": 169_001_437}

    def find(data: Path) -> list[Path]:
        found = find_cifar(name, data)
        return [found[0] / file for file in (*found[1].train, *found[1].test, found[1].names)] if found else []

    def read(paths: list[Path]) -> Source:
        found = find_cifar(name, paths[0].parent.parent)
        assert found is not None
        return read_cifar(name, *found)

    home = "https://www.cs.toronto.edu/~kriz"
    archive = f"{name}-python.tar.gz"
    return Dataset(
        name,
        f"CIFAR-{digits}: 60,000 colour photographs of 32x32, {digits} classes",
        "free for research; please cite Krizhevsky 2009",
        f"{home}/cifar.html",
        f"{name}-{python}/ (pickles) or {name}-{binary}/ (binary), unpacked from {archive}",
        find,
        read=read,
        downloads=(Download(f"{home}/{archive}", archive, sums[digits], sizes[digits], unpack=True),),
        expected=(50_000, 10_000, int(digits)),
    )


def _first(*names: str) -> Callable[[Path], list[Path]]:
    return lambda data: [place for name in names if (place := data / name).exists()][:1]


def _mini(data: Path) -> list[Path]:
    folder = find_mini_imagenet(data)
    return [] if folder is None else find_caches(folder) or [folder]


def _mnist_files(base: str, files: tuple[tuple[str, int], ...]) -> tuple[Download, ...]:
    names = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    return tuple(
        Download(f"{base}/{name}-ubyte.gz", f"{name}-ubyte.gz", digest, size)
        for name, (digest, size) in zip(names, files, strict=True)
    )


def _catalogue() -> list[Dataset]:
    mnist_files = (
        ("md5:f68b3c2dcbeaaa9fbdd348bbdeb94873", 9_912_422),
        ("md5:d53e105ee54ea40749a09fcbcd1e9432", 28_881),
        ("md5:9fb629c4189551a2d022fa330f9573f3", 1_648_877),
        ("md5:ec29112dd5afa0611ce80d1b7f02629c", 4_542),
    )
    fashion_files = (
        ("md5:8d4fb7e6c68d591d4c3dfef9ec88bf0d", 26_421_880),
        ("md5:25c81989df183df01b3e8a0aad5dffbe", 29_515),
        ("md5:bef4ecab320f06d8554ea6380940ec79", 4_422_102),
        ("md5:bb300cfdad3c16e7a12a480ee83cd310", 5_148),
    )
    house = "https://ufldl.stanford.edu/housenumbers"
    fashion = "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion"
    return [
        Dataset(
            "mnist",
            "MNIST: 70,000 handwritten digits of 28x28, grey",
            "CC BY-SA 3.0",
            "http://yann.lecun.com/exdb/mnist",
            "mnist/: four idx files, train-images-idx3-ubyte.gz and its sisters, gzipped or not",
            _idx("mnist"),
            read=partial(read_idx_dataset, "mnist", classes=DIGITS),
            downloads=_mnist_files("https://ossci-datasets.s3.amazonaws.com/mnist", mnist_files),
            expected=(60_000, 10_000, 10),
        ),
        Dataset(
            "fashion-mnist",
            "Fashion-MNIST: 70,000 pieces of clothing of 28x28, grey",
            "MIT",
            "https://github.com/zalandoresearch/fashion-mnist",
            "fashion-mnist/: four idx files named like MNIST's, gzipped or not",
            _idx("fashion-mnist"),
            read=partial(read_idx_dataset, "fashion-mnist", classes=CLOTHES),
            downloads=_mnist_files(fashion, fashion_files),
            expected=(60_000, 10_000, 10),
        ),
        _cifar("cifar-10"),
        _cifar("cifar-100"),
        Dataset(
            "svhn",
            "Street View House Numbers: 99,289 cropped digits of 32x32",
            "non-commercial use",
            "http://ufldl.stanford.edu/housenumbers",
            "svhn/train_32x32.mat and svhn/test_32x32.mat",
            lambda data: find_svhn(data) or [],
            read=read_svhn,
            downloads=(
                Download(
                    f"{house}/train_32x32.mat",
                    "train_32x32.mat",
                    "sha256:435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8",
                    182_040_794,
                ),
                Download(
                    f"{house}/test_32x32.mat",
                    "test_32x32.mat",
                    "sha256:cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b",
                    64_275_384,
                ),
            ),
            expected=(73_257, 26_032, 10),
        ),
        Dataset(
            "tiny-imagenet",
            "Tiny ImageNet: 110,000 photographs of 64x64, 200 classes",
            RESEARCH,
            "http://cs231n.stanford.edu",
            "tiny-imagenet-200/ or tiny-imagenet-200.zip",
            lambda data: [place] if (place := find_tiny_imagenet(data)) else [],
            files=tiny_imagenet,
            pool=tiny_imagenet_train,
            downloads=(
                Download(
                    f"https://cs231n.stanford.edu/{TINY_FOLDER}.zip",
                    f"{TINY_FOLDER}.zip",
                    "sha256:6198c8ae015e2b3e007c7841da39ec069199b9aa3bfa943a462022fe5e43c821",
                    248_100_043,
                    unpack=True,
                ),
            ),
            expected=(100_000, 10_000, 200),
        ),
        Dataset(
            "mini-imagenet",
            "miniImageNet: 60,000 photographs of 84x84, 100 classes",
            RESEARCH,
            "https://github.com/gidariss/FewShotWithoutForgetting",
            "mini-imagenet/: mini-imagenet-cache-{train,val,test}.pkl, or a folder a class",
            _mini,
            read=read_caches,
            files=class_folders,
            expected=(50_000, 10_000, 100),
        ),
        Dataset(
            "coco",
            "MS COCO: 118,287 photographs of any size (train2017)",
            "CC BY 4.0 for annotations; images under their Flickr licences",
            "https://cocodataset.org",
            "coco/, coco.zip, train2017/ or train2017.zip, images however deep",
            _first("coco", "coco.zip", "train2017", "train2017.zip"),
            pool=pools.any_images,
            images=118_287,
        ),
        Dataset(
            "cub",
            "CUB-200-2011: photographs of birds; 5,994 in the training split",
            "non-commercial research and education",
            "https://www.vision.caltech.edu/datasets/cub_200_2011",
            "CUB_200_2011/, cub/ or cub.zip",
            _first("CUB_200_2011", "cub", "cub.zip"),
            pool=pools.cub,
            images=5_994,
            downloads=(
                Download(
                    "https://data.caltech.edu/records/65de6-vp158/files/CUB_200_2011.tgz",
                    "CUB_200_2011.tgz",
                    "md5:97eceeb196236b17998738112f37df78",
                    1_150_585_339,
                    unpack=True,
                ),
            ),
        ),
        Dataset(
            "aircraft",
            "FGVC-Aircraft: photographs of aircraft; 3,334 in the training split",
            "non-commercial research",
            "https://www.robots.ox.ac.uk/~vgg/data/fgvc-aircraft",
            "fgvc-aircraft-2013b/, aircraft/ or aircraft.zip",
            _first("fgvc-aircraft-2013b", "aircraft", "aircraft.zip"),
            pool=pools.aircraft,
            images=3_334,
            downloads=(
                Download(
                    "https://www.robots.ox.ac.uk/~vgg/data/fgvc-aircraft/archives/fgvc-aircraft-2013b.tar.gz",
                    "fgvc-aircraft-2013b.tar.gz",
                    "md5:d4acdd33327262359767eeaa97a4f732",
                    2_753_340_328,
                    unpack=True,
                ),
            ),
        ),
        Dataset(
            "cars",
            "Stanford Cars: photographs of cars; 8,144 in the training split",
            "non-commercial research",
            "https://ai.stanford.edu/~jkrause/cars/car_dataset.html",
            "cars_train/, stanford_cars/, cars/ or cars.zip",
            _first("cars_train", "stanford_cars", "cars", "cars.zip"),
            pool=pools.any_images,
            images=8_144,
        ),
    ]


CATALOGUE: dict[str, Dataset] = {dataset.name: dataset for dataset in _catalogue()}
