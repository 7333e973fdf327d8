"""What ``gradcast bench`` has found, and its form in JSON; some machines' results come with the package."""

from dataclasses import asdict, dataclass, field
from importlib.resources import files
from pathlib import Path

from pydantic import TypeAdapter

from gradcast.bench.epoch_times import EpochTime
from gradcast.bench.few_labels import Speed
from gradcast.bench.head_start_times import HeadStartTime
from gradcast.bench.method_times import MethodTime
from gradcast.bench.ray_times import RayTimes
from gradcast.bench.saving import Cost
from gradcast.bench.step_times import Timing
from gradcast.bench.streams import Throughput
from gradcast.bench.whole_stream import WholeStream
from gradcast.devices import Arithmetic


@dataclass(frozen=True)
class Comparison:
    """Both formulations at one task; the classical one as scripts run it, and with numpy's threads held back."""

    network: str
    dtype: Arithmetic
    task: int
    classical: Timing
    pinned: Timing | None  # None: not recorded
    ours: Timing

    @property
    def ratio(self) -> float:
        """How many times faster ours is than the classical formulation."""
        return self.classical.milliseconds / self.ours.milliseconds

    @property
    def pinned_ratio(self) -> float | None:
        """The same where the classical one has its threads held back, as we hold ours."""
        return None if self.pinned is None else self.pinned.milliseconds / self.ours.milliseconds


@dataclass(frozen=True)
class Growth:
    """Our step where one size changes."""

    network: str
    dtype: Arithmetic
    varied: str
    size: int
    ours: Timing


@dataclass
class Bench:
    """All results; parts that were not asked for are empty."""

    machine: dict[str, object]
    steps: int | None = None  # timed, of each kind
    comparisons: list[Comparison] = field(default_factory=list)
    agreement: float | None = None  # largest relative difference of a weight between both formulations, in float64
    growth: list[Growth] = field(default_factory=list)
    streams: list[Throughput] = field(default_factory=list)
    real_data: bool | None = None  # whether the streams had MNIST, or random images
    peak_mb: dict[str, int] = field(default_factory=dict)  # GPU memory of our step at task 20
    checkpoints: list[Cost] = field(default_factory=list)
    epochs: list[EpochTime] = field(default_factory=list)  # of ACL
    few_labels: list[Speed] = field(default_factory=list)
    head_starts: list[HeadStartTime] = field(default_factory=list)
    methods: list[MethodTime] = field(default_factory=list)
    whole_stream: WholeStream | None = None
    ray: RayTimes | None = None

    def as_dict(self) -> dict[str, object]:
        """The measurements by name, for JSON."""
        ratios = [{"as released": entry.ratio, "pinned": entry.pinned_ratio} for entry in self.comparisons]
        shares = [entry.share for entry in self.checkpoints]
        images, whole = [entry.images_a_second for entry in self.few_labels], self.whole_stream
        ahead = [
            {"ratio": own.ratio, "images_a_second": own.images_a_second, "hours": own.hours()}
            for own in self.head_starts
        ]
        return asdict(self) | {
            "ratios": ratios,
            "checkpoint_shares": shares,
            "few_labels_images_a_second": images,
            "head_start_rates": ahead,
            "whole_stream_ratios": None
            if whole is None
            else {"as released": whole.ratio, "pinned": whole.pinned_ratio},
            "ray_ratios": None if self.ray is None else {"two": self.ray.two, "overhead": self.ray.overhead},
        }


def read_bench(file: Path) -> Bench:
    """What ``gradcast bench --json`` has written; ratios and rates are computed anew."""
    return TypeAdapter(Bench).validate_json(file.read_bytes())


def measured() -> dict[str, Bench]:
    """What comes with the package, by the name of its file: one for each machine, GPUs first."""
    folder = Path(str(files("gradcast.bench").joinpath("measured")))
    found = {file.stem: read_bench(file) for file in sorted(folder.glob("*.json"))}
    return dict(sorted(found.items(), key=lambda own: own[1].machine["device"] == "cpu"))
