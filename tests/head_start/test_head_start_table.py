import pytest

from gradcast.errors import GradcastError
from gradcast.head_start.head_start_table import HeadStartSpec, label_free
from gradcast.signals.contrastive import ContrastiveSpec
from gradcast.signals.rotation import RotationSpec
from gradcast.signals.vicreg import VicregSpec
from gradcast.specs.text import dump, load, parse


def test_signals_are_named_or_written_out_and_weigh_one() -> None:
    assert label_free() == ["contrastive", "rotation", "vicreg"]
    assert HeadStartSpec().steps == 0
    (alone,) = HeadStartSpec().signal
    assert isinstance(alone, ContrastiveSpec)
    assert (alone.weight, alone.head, len(alone.augment)) == (1.0, [256, 128], 4)
    found = HeadStartSpec.model_validate({"signal": ["vicreg", {"name": "rotation", "weight": 0.2}]}).signal
    assert isinstance(found[0], VicregSpec)
    assert isinstance(found[1], RotationSpec)
    assert [getattr(own, "weight", 0) for own in found] == [1.0, 0.2]


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("head_start.signal=predicted", "'predicted' needs labels or labelled gradients; known: contrastive, rotation"),
        ("head_start.signal=rotatoin", "'rotatoin' is unknown; did you mean 'rotation'?"),
        ('head_start.signal=[{name = "vicreg", widht = 2}]', "unknown key 'head_start.signal.widht'"),
        ('head_start.signal=[{name = "vicreg", weight = -2.0}]', "head_start.signal.weight = -2.0 is not valid"),
        ('head_start.signal=[{name = "contrastive", labelled = true}]', "asks for labelled images, and there are none"),
        ("head_start.signal=[]", "head_start.signal = [] is not valid"),
        ("head_start.stpes=5", "unknown key 'head_start.stpes'; did you mean 'head_start.steps'?"),
        (
            'head_start={steps = 2, optimizer = "adamw", momentum = 0.5}',
            "head_start.momentum is of the optimizer",
        ),
    ],
)
def test_mistakes_are_named(setting: str, says: str) -> None:
    with pytest.raises(GradcastError) as caught:
        load("digits", [setting])
    assert says in str(caught.value)


def test_a_specification_says_it_back_and_says_nothing_where_there_is_none() -> None:
    plain = load("digits")
    assert "head_start" not in dump(plain)
    spec = load("digits", ["head_start.steps=3", "row.base.head_start.steps=0", 'head_start.signal=["rotation"]'])
    assert parse(dump(spec)) == spec
    assert [row.setting.head_start.steps for row in spec.rows] == [0, 3, 3]
    assert spec.rows[1].label == "GEM + predicted gradients + head start on patches"
