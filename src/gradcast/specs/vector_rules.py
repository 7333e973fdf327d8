"""What feature vectors cannot do, in sentences: nothing of them can be turned, coloured or cropped."""

from gradcast.data.images import Inputs, Shape, convert, is_vector
from gradcast.errors import GradcastError
from gradcast.signals.registry import SIGNALS
from gradcast.specs.spec import Setting, StreamSpec
from gradcast.streams.named_augmentations import KEY, named_by
from gradcast.streams.pool_tables import CallersPoolSpec, NpzPoolSpec, OwnPoolSpec, PoolSpec


def check_stream(spec: StreamSpec) -> None:
    """A stream of feature vectors."""
    if spec.scenario == "rotated":
        raise GradcastError(
            "feature vectors cannot be turned; set stream.scenario to split or permuted, or bring tasks of your own"
        )
    if spec.augment:
        raise GradcastError(
            f"stream.augment = {spec.augment} changes images, and these are feature vectors; leave it out"
        )


def check_pool(spec: PoolSpec) -> None:
    """A pool beside a stream of feature vectors."""
    if not isinstance(spec, OwnPoolSpec | NpzPoolSpec | CallersPoolSpec):
        raise GradcastError(
            f"the pool {spec.name!r} has images, and the stream feature vectors; set pool.name to unlabelled, held-out "
            "or npz, or bring vectors: gradcast.run(spec, pool=...)"
        )
    for key in ("transform", "augment", "scale"):
        if getattr(spec, key) != type(spec).model_fields[key].default:
            raise GradcastError(f"pool.{key} is for images, and the stream has feature vectors; leave it out")


def check_learner(setting: Setting) -> None:
    """A learner of feature vectors."""
    for key, steps in named_by(setting.learner).items():
        remedy = "leave it out" if key == KEY else f"set learner.{key}=[]"
        raise GradcastError(f"learner.{key} = {steps} changes images, and these are feature vectors; {remedy}")


def check_signals(setting: Setting) -> None:
    """Signals that learn from feature vectors."""
    for signal in [*setting.signals, *(setting.head_start.signal if setting.head_start.steps else ())]:
        keys = " and ".join(named_by(signal))
        if "square" in SIGNALS[signal.name].traits or keys:
            raise GradcastError(
                f"the signal {signal.name!r} changes images, and these are feature vectors; choose another signal"
                + (f", or set its {keys} to []" if keys else "")
            )


def like_the_stream(x: Inputs, shape: Shape, *, squash: bool) -> Inputs:
    """Images of a pool brought to this shape; vectors must have it."""
    own = x.shape[1:]
    if is_vector(own) != is_vector(shape):
        kinds = ["feature vectors" if is_vector(each) else "images" for each in (own, shape)]
        raise GradcastError(f"the pool holds {kinds[0]} and the stream {kinds[1]}; both must be the same")
    if is_vector(own):
        if own != shape:
            raise GradcastError(
                f"the pool holds vectors of {own[0]} numbers and the stream of {shape[0]}; bring equal ones"
            )
        return x
    return convert(x, shape, squash=squash)
