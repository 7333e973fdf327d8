import pytest
from gradcast.semi.feasible import check_semi, uses_unlabelled

from gradcast.errors import GradcastError
from gradcast.specs import build
from gradcast.specs.compatibility import check
from gradcast.specs.spec import Setting
from gradcast.specs.text import load
from tests.specs.test_build import SHELF


def setting(row: str, *changes: str) -> Setting:
    spec = load("digits-100", changes)
    return next(own.setting for own in spec.rows if own.name == row)


def test_every_row_of_the_preset_fits_and_all_but_the_first_use_unlabelled_images() -> None:
    rows = load("digits-100").rows
    for row in rows:
        check_semi(row.setting, build.stream(row.setting.stream, SHELF))
    assert [uses_unlabelled(row.setting) for row in rows] == [False, *[True] * 6]


BAD = [
    (["stream.tasks=2"], "[semi] is one task of all classes: set stream.scenario=split, stream.tasks=1"),
    (["stream.scenario=rotated"], "[semi] is one task of all classes"),
    (["model.heads=masked"], "[semi] is one task, which has one head: leave model.heads out"),
    (["stream.epochs=2"], "[semi] counts steps and labels: set semi.steps and semi.labels"),
    (["stream.samples=500"], "[semi] counts steps and labels"),
    (["row.mg.learner.name=gem", "row.mg.learner.momentum=0.0"], "[semi] is for the learners finetune"),
    (["row.mg.signal.name=contrastive"], "[semi] takes the signals none, predicted, noise, one-hot and soft, not 'con"),
    (["policy.p=0.5"], "in [semi] every step has unlabelled images"),
    (["policy.batchnorm=frozen"], "in [semi] every step has unlabelled images"),
    (["pool.count=30"], "the unlabelled images of [semi] are training images without their label: leave [pool] out"),
    (["evaluation.drop_last=true"], "[semi] tests on all images"),
    (["policy.batch=32"], "mix-up pairs labelled and unlabelled images: set policy.batch equal to stream.batch, 64"),
    (["semi.labels=1290"], "class '"),
    (["semi.labels=5"], "5 labels leave some of the 10 classes without any"),
    (["semi.labels=2000"], "2000 labels are asked for and there are 1297 training images"),
]


@pytest.mark.parametrize(("changes", "sentence"), BAD)
def test_what_does_not_fit_is_said(changes: list[str], sentence: str) -> None:
    own = setting("mg", *changes)
    with pytest.raises(GradcastError) as caught:
        check_semi(own, build.stream(own.stream, SHELF))
    assert str(caught.value).startswith(sentence)


def test_batches_may_differ_without_mix_up_and_must_be_filled() -> None:
    few = ["policy.batch=1200", "row.mg.learner.mix_up=0.0"]
    own = setting("mg", *few)
    stream = build.stream(own.stream, SHELF)
    with pytest.raises(GradcastError, match=r"1197 images have no label and a batch of them shall have 1200; lower"):
        check_semi(own, stream)
    check_semi(setting("supervised", *few), stream)
    check_semi(setting("mg", "policy.batch=1100", "row.mg.learner.mix_up=0.0"), stream)


def test_batches_are_full_and_those_of_one_image_are_said() -> None:
    """A pass through the 1,297 digits in batches of 16 would end in a single image; walks have no end."""
    fine = setting("mg", "stream.batch=16", "policy.batch=16")
    stream = build.stream(fine.stream, SHELF)
    check(fine, stream)
    lonely = ["policy.batch=1", "row.mg.learner.mix_up=0.0"]
    with pytest.raises(GradcastError, match=r"policy.batch leads to a pass of a single image, which BatchNorm cannot"):
        check(setting("mg", *lonely), stream)
    check(setting("supervised", *lonely), stream)
