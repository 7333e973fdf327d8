import tomllib
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradcast.errors import GradcastError
from gradcast.learners.dcl import DclSpec
from gradcast.learners.finetune import FinetuneSpec
from gradcast.learners.gem import GemSpec
from gradcast.learners.learner_table import ReservoirTable
from gradcast.signals.distil import DistilSpec
from gradcast.signals.forward_only import ForwardOnlySpec
from gradcast.signals.meta_gradient import MetaGradientSpec
from gradcast.signals.noise import NoiseSpec
from gradcast.signals.predicted import PredictedSpec
from gradcast.signals.pseudo_labels import PseudoLabelsSpec
from gradcast.signals.signal_table import SignalTable
from gradcast.specs.spec import Setting, Spec
from gradcast.specs.text import dump, load, override, parse, presets
from gradcast.training.schedule_tables import ConstantSpec, PlateauSpec, StepsSpec

BEST = [name for name in presets() if name.endswith("-best")]
ACL = [name for name in presets() if name.startswith("acl-")]
IMAGES = [name for name in presets() if name.startswith("icifar100") and name not in BEST]
SPLIT = [name for name in presets() if name.startswith("split-")]
FEW_LABELS = [name for name in presets() if load(name).rows[0].setting.one_task is not None]


def only(setting: Setting) -> SignalTable:
    """Its signal."""
    (signal,) = setting.signal
    return signal


@pytest.mark.parametrize("name", IMAGES)
def test_image_presets_have_the_controls_that_explain_the_method(name: str) -> None:
    base, predicted, matched, forward_only, frozen = (row.setting for row in load(name).rows)
    assert base.signals == []
    assert (predicted.pool[0].scale, matched.pool[0].scale) == ("reference", "labelled")
    assert matched.model_copy(update={"pool": predicted.pool}) == predicted
    frozen_h = only(predicted).model_copy(update={"directions": "frozen"})
    assert forward_only == predicted.model_copy(update={"signal": [ForwardOnlySpec(name="forward-only")]})
    assert frozen == predicted.model_copy(update={"signal": [frozen_h]})


@pytest.mark.parametrize("name", sorted(presets().keys() - {*IMAGES, *BEST, *ACL, *SPLIT, *FEW_LABELS, "photos"}))
def test_presets_compare_base_predicted_and_random(name: str) -> None:
    spec = load(name)
    assert spec.name == name
    base, predicted, random = spec.rows[:3]
    assert base.setting.signals == []
    h = only(predicted.setting)
    assert isinstance(h, PredictedSpec)
    assert only(random.setting) == NoiseSpec(name="noise", alpha=h.alpha, scaled=True)
    assert base.setting.learner == predicted.setting.learner == random.setting.learner


def test_photographs_have_an_output_layer_on_trained_features() -> None:
    spec = load("photos", ["stream.path=/somewhere/holidays"])
    assert spec.name == "holidays"
    for row in spec.rows:
        assert (row.setting.model.train, row.setting.model.heads) == ("head", "seen")
        assert row.setting.stream.normalise == "imagenet"


@pytest.mark.parametrize("name", BEST)
def test_from_base_to_best_one_thing_changes_at_a_time(name: str) -> None:
    rows = {row.name: row.setting for row in load(name).rows}
    base, averaged, signal = rows["base"], rows["averaged"], rows["signal"]
    assert base.signals == []
    assert base.evaluation.average == 1 < averaged.evaluation.average
    assert averaged.model_copy(update={"evaluation": base.evaluation}) == base
    assert signal.model_copy(update={"signal": base.signal}) == averaged
    assert signal.policy.batchnorm == "separate"
    ahead, both, blank = rows["head-start"], rows["both"], rows["blank"]
    assert ahead.model_copy(update={"head_start": base.head_start}) == averaged
    assert both.model_copy(update={"signal": base.signal}) == ahead
    assert blank.model_copy(update={"pool": ahead.pool}) == ahead
    assert blank.pool[0].name == "pixels"


@pytest.mark.parametrize("name", SPLIT)
def test_split_presets_train_classes_against_each_other_and_test_with_and_without_the_task(name: str) -> None:
    for row in load(name).rows:
        setting, learner = row.setting, row.setting.learner
        assert setting.stream.scenario == "split"
        assert setting.model.heads in ("seen", "all") or row.name.endswith("masked")
        assert setting.evaluation.task == "auto"
        if isinstance(learner, ReservoirTable):
            kept = [part for part in row.name.split("-") if part.isdigit()]
            assert learner.places(setting.stream.tasks) == learner.capacity
            assert not kept or learner.capacity == int(kept[0])
    if name.endswith("few-labels"):
        base = load(name).rows[0].setting
        assert base.stream.labels == 5 * (2 if base.stream.source == "digits" else 10)


@pytest.mark.parametrize("name", presets())
def test_round_trip_through_a_file(tmp_path: Path, name: str) -> None:
    first = load(name).rows[0].name
    spec = load(name, ["policy.p=0.5", f"row.{first}.learner.name=finetune", "stream.samples=all"])
    path = tmp_path / "spec.toml"
    path.write_text(dump(spec))
    assert load(str(path)) == spec


def test_a_default_that_goes_without_saying_is_said_where_the_first_row_has_another() -> None:
    spec = load(
        "digits", ["signal.momentum=0.9", "row.base.signal.name=predicted", "row.predicted.signal.momentum=0.0"]
    )
    momenta = [getattr(only(row.setting), "momentum", None) for row in spec.rows]
    assert momenta == [0.9, 0.0, None]
    again = parse(tomllib.loads(dump(spec)))
    assert again == spec


def test_published_constants() -> None:
    r, p = load("mnist-r").rows[1].setting, load("mnist-p").rows[1].setting
    for setting, margin, scale in ((r, 0.7, 0.3), (p, 0.5, 0.5)):
        assert isinstance(setting.learner, GemSpec)
        signal = only(setting)
        assert isinstance(signal, PredictedSpec)
        assert (setting.learner.lr, setting.learner.memory, setting.learner.margin) == (0.1, 256, margin)
        assert (signal.alpha, signal.loss_scale, signal.hidden) == (0.001, scale, [64, 16])
        assert (setting.policy.p, setting.policy.start, setting.policy.batch) == (0.15, 0, 4)
        assert (setting.stream.tasks, setting.stream.samples, setting.stream.batch) == (20, 1000, 10)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["signal.name=vicreg", "policy.batch=1"], "'vicreg' compares images of a batch: set policy.batch to 2"),
        (["signal.name=distil", "policy.batchnorm=frozen"], "set policy.batchnorm to 'separate'"),
        (["signal.name=soft", "signal.scaled=true", "signal.weight=3.0"], "signal.weight does nothing where"),
    ],
)
def test_signals_that_cannot_work_are_explained(settings: list[str], message: str) -> None:
    with pytest.raises(GradcastError, match=message):
        load("digits", settings)


def test_another_signal_keeps_nothing_but_the_length() -> None:
    best = only(load("icifar100-resnet-gem-best", ["signal.weight=0.7", "signal.name=distil"]).rows[2].setting)
    assert best == DistilSpec(name="distil")
    predicted, random = (only(row.setting) for row in load("digits", ["signal.alpha=0.5"]).rows[1:])
    assert isinstance(predicted, PredictedSpec)
    assert isinstance(random, NoiseSpec)
    assert (predicted.alpha, random.alpha, random.scaled) == (0.5, 0.5, True)
    labels = only(load("digits", ["signal.name=one-hot"]).rows[1].setting)
    assert labels == PseudoLabelsSpec(name="one-hot", alpha=0.001)
    same = only(load("digits", ["signal.loss_scale=7.0", "signal.name=predicted"]).rows[1].setting)
    assert isinstance(same, PredictedSpec)
    assert same.loss_scale == 7


def test_settings_reach_all_rows_or_one() -> None:
    spec = load("digits", ["stream.tasks=3", "signal.alpha=0.5", "row.random.signal.alpha=0.25", "seeds=[1, 2]"])
    alphas = [getattr(only(row.setting), "alpha", None) for row in spec.rows]
    assert alphas == [None, 0.5, 0.25]
    assert {row.setting.stream.tasks for row in spec.rows} == {3}
    assert spec.seeds == [1, 2]


def test_a_new_name_keeps_what_the_new_choice_also_has() -> None:
    dcl = load("mnist-r", ["learner.name=dcl"]).rows[0].setting.learner
    assert isinstance(dcl, DclSpec)
    assert (dcl.margin, dcl.interval) == (0.7, 10)
    plain = load("mnist-r", ["learner.name=finetune", "learner.lr=0.2"]).rows[0].setting.learner
    assert plain == FinetuneSpec(name="finetune", lr=0.2)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("stream.taks=3", r"unknown key 'stream.taks'; did you mean 'stream.tasks'\?"),
        ("strem.tasks=3", r"unknown key 'strem.tasks'; did you mean 'stream.tasks'\?"),
        ("learner.margn=3", r"unknown key 'learner.margn' \(learner 'gem'\); did you mean 'learner.margin'\?"),
        ("seedz=[1]", r"unknown key 'seedz'; did you mean 'seeds'\?"),
        (
            "row.random.signal.alfa=1",
            r"unknown key 'signal.alfa' \(signal 'noise'\); did you mean 'signal.alpha'\?",
        ),
        ("row.radnom.signal.alpha=1", r"there is no row 'radnom'; did you mean 'random'\?"),
        ("row.random.signl.alpha=1", r"unknown key 'signl.alpha'; did you mean 'signal.alpha'\?"),
        ("stream.source=mnits", r"stream.source = 'mnits' is unknown; did you mean 'mnist'\?"),
        ("learner.name=gme", r"learner.name = 'gme' is unknown; did you mean 'gem'\?"),
        ("stream.tasks=-1", "stream.tasks = -1 is not valid: input should be greater than or equal to 1"),
        ("stream.batch=0", "stream.batch = 0 is not valid"),
        ("model.hidden=[10, -5]", r"model.hidden(\.1)? = -5 is not valid"),
        ("learner.memory=-256", "learner.memory = -256 is not valid"),
        ("policy.p=1.5", "policy.p = 1.5 is not valid: input should be less than or equal to 1"),
        ("policy.p=-0.1", "policy.p = -0.1 is not valid"),
        ("learner.lr=nan", "learner.lr = nan is not valid"),
        ("seeds=[]", "seeds"),
        ("seeds=[-1]", "seeds"),
        ("pool.name=folder", "pool.path is missing; set it, as in --set pool.path=VALUE"),
        ("pool.path=here", r"unknown key 'pool.path' \(pool 'patches'\)"),
        ("stream.source=npz", "stream.path is missing: set it to your npz"),
        ("stream.path=here", "stream.path belongs to the sources"),
        ("stream.class_order=shuffled", "stream.class_order applies to the scenario 'split'"),
        ("stream.classes_per_task=2", "stream.classes_per_task applies to the scenario 'split'"),
        ("stream.ratio=0", "stream.ratio = 0 is not valid"),
        ("pool.ratio=1.5", "pool.ratio = 1.5 is not valid"),
        ('stream.augment=["blur"]', "stream.augment"),
        ("stream.tasks", "is not KEY=VALUE"),
        ("stream.=3", "is not KEY=VALUE"),
        ("stream=3", "'stream' must be a table"),
        ("stream.tasks.deep=3", "unknown key 'stream.tasks.deep'"),
        ("signal.tau=per_sample", "set policy.batch equal to stream.batch"),
    ],
)
def test_mistakes_are_explained(setting: str, message: str) -> None:
    with pytest.raises(GradcastError, match=message) as caught:
        load("digits", [setting])
    assert "\n" not in str(caught.value)


def test_unknown_presets_and_bad_files(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("[stream\ntasks = 3")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    for name, message in (
        ("digitz", r"no preset or file 'digitz'; did you mean 'digits'\?"),
        (str(tmp_path / "none.toml"), "does not exist; name a preset"),
        (str(tmp_path / "bad.toml"), "is not valid TOML"),
        (str(tmp_path / "binary.toml"), "cannot be read"),
    ):
        with pytest.raises(GradcastError, match=message):
            load(name)


def test_rows_must_be_tables() -> None:
    with pytest.raises(GradcastError, match=r"write each as \[\[row\]\]"):
        parse({"name": "x", "row": {"name": "a"}})
    with pytest.raises(GradcastError, match=r"unknown key 'row.lable'; did you mean 'label'\?"):
        parse({"name": "x", "row": [{"lable": "a"}]})


def test_without_rows_there_is_one() -> None:
    spec = parse({"name": "x", "learner": {"margin": 0.2}})
    assert [row.name for row in spec.rows] == ["run"]
    assert spec.rows[0].setting.learner == GemSpec(margin=0.2)


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
VALUES = st.recursive(
    SCALARS, lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=5), v, max_size=3), max_leaves=8
)
KEYS = st.sampled_from(
    ["name", "title", "seeds", "dtype", "row", "stream", "model", "learner", "signal", "policy", "pool", "schedule"]
)

INNER = st.sampled_from(
    ["name", "label", "tasks", "samples", "hidden", "lr", "alpha", "p", "batch", "path", "signal", "learner"]
)
VALUES |= st.dictionaries(INNER, VALUES, max_size=4) | st.lists(st.dictionaries(INNER, VALUES, max_size=4), max_size=3)


@given(st.dictionaries(KEYS | st.text(max_size=6), VALUES, max_size=5))
def test_anything_parses_or_is_explained(raw: dict[str, object]) -> None:
    with suppress(GradcastError):
        assert isinstance(parse({"name": "x"} | raw), Spec)


def test_a_path_that_looks_like_a_number_is_a_path() -> None:
    setting = load("digits", ["pool.name=folder", "pool.path=2017"]).rows[1].setting
    assert getattr(setting.pool[0], "path", None) == "2017"


def test_tau_per_sample_knows_the_labelled_ratio() -> None:
    fits = ["signal.tau=per_sample", "policy.batch=10", "stream.samples=100"]
    load("digits", [*fits, "stream.ratio=0.5"])
    with pytest.raises(GradcastError, match=r"policy\.batch equal to stream\.batch"):
        load("digits", [*fits, "stream.ratio=0.25"])


def test_toml_text_is_parsed_as_its_tables_are() -> None:
    spec = load("digits", ["stream.tasks=3"])
    assert parse(dump(spec)) == spec
    text = 'name = "x"\nseeds = [1, 2]\n[learner]\nmargin = 0.2\n'
    assert parse(text) == parse(tomllib.loads(text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name = ", "the specification is not valid TOML: "),
        ('name = "x"\n[learner]\nmargn = 1', r"unknown key 'learner.margn' .*did you mean 'learner.margin'"),
        ('name = "x"\nsteam.tasks = 2', "unknown key 'steam'; did you mean 'stream'"),
    ],
)
def test_mistakes_in_toml_text_are_explained(text: str, message: str) -> None:
    with pytest.raises(GradcastError, match=message):
        parse(text)


TWO = 'signal = [{ name = "meta-gradient", mix_up = 1.0 }, { name = "noise", pool = "grey" }]'
POOLS = 'pool = [{ name = "patches", count = 30 }, { name = "grey", augment = ["flip"] }]'
LISTED = """
name = "x"
[[signal]]
name = "meta-gradient"
mix_up = 1.0
[[signal]]
name = "noise"
pool = "grey"
[[pool]]
name = "patches"
count = 30
[[pool]]
name = "grey"
augment = ["flip"]
"""


def test_several_signals_and_pools_are_lists_of_tables() -> None:
    listed = parse(LISTED)
    inline = parse(f'name = "x"\n{TWO}\n{POOLS}\n')
    given = load("digits", [TWO, POOLS])
    assert listed == inline
    for setting in (listed.rows[0].setting, given.rows[1].setting):
        assert [signal.name for signal in setting.signals] == ["meta-gradient", "noise"]
        assert setting.signals[0] == MetaGradientSpec(name="meta-gradient", mix_up=1.0)
        assert [pool.name for pool in setting.pool] == ["patches", "grey"]
        assert [setting.pool_of(signal.pool) for signal in setting.signals] == [0, 1]


SEVERAL = {
    "in all rows": ("", "", ""),
    "in one row": ("signal.name = 'none'", "", TWO + "\n" + POOLS),
    "in the first alone": (TWO + "\n" + POOLS, "signal.name = 'none'", "pool.name = 'pixels'\nsignal.name = 'soft'"),
    "others in each": (TWO + "\n" + POOLS, 'signal = [{ name = "soft" }, { name = "noise" }]', "signal.name = 'noise'"),
    "single and none": ("signal.name = 'noise'", "signal.name = 'none'", 'signal = [{ name = "soft" }]'),
}


@pytest.mark.parametrize("name", SEVERAL)
def test_several_signals_round_trip_through_text(name: str) -> None:
    common = LISTED if name == "in all rows" else 'name = "x"\n'
    text = common + "".join(f'\n[[row]]\nname = "r{n}"\n{own}\n' for n, own in enumerate(SEVERAL[name]))
    spec = parse(text)
    assert len(spec.rows) == 3
    assert parse(dump(spec)) == spec


def test_keys_for_several_reach_all_that_know_them() -> None:
    spec = load("digits", [TWO, POOLS, "row.random.signal.name=noise", "signal.alpha=0.5", "pool.count=7"])
    several, single = spec.rows[1].setting, spec.rows[2].setting
    assert [getattr(signal, "alpha", None) for signal in several.signals] == [None, 0.5]
    assert [getattr(signal, "mix_up", None) for signal in several.signals] == [1.0, None]
    assert [signal.name for signal in single.signals] == ["noise"]
    assert [getattr(pool, "count", None) for pool in several.pool] == [7, 7]
    one = load("digits-100", ["row.mg-predicted.signal.alpha=0.5", "row.mg-random.signal.name=soft"])
    rows = {row.name: row.setting for row in one.rows}
    assert getattr(rows["mg-predicted"].signals[1], "alpha", None) == 0.5
    assert [signal.name for signal in rows["mg-random"].signals] == ["soft"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            [TWO, "signal.mixup=1.0"],
            r"unknown key 'signal.mixup' \(signal 'meta-gradient'\); did you mean 'signal.mix_up'\?",
        ),
        (['signal=[{name = "nois"}, {name = "soft"}]'], r"signal.name = 'nois' is unknown; did you mean 'noise'\?"),
        (['signal=[{name = "noise", alpha = -1.0}, {name = "soft"}]'], "signal.alpha = -1.0 is not valid"),
        (["signal=[]"], "'signal' must be a table"),
        (["signal=[3]"], "'signal' must be a table"),
        (["pool=[]"], "'pool' must be a table"),
        (["stream=[{tasks = 3}]"], "'stream' must be a table"),
        (["learner=[{name = 'gem'}, {name = 'er'}]"], "'learner' must be a table"),
        (['pool=[{name = "folder"}, {name = "grey"}]'], "pool.path is missing"),
        (['signal=[{name = "noise"}, {}]'], "signal"),
        ([TWO], "signal.pool = 'grey' is none of the row's pools"),
    ],
)
def test_mistakes_in_lists_are_explained(settings: list[str], message: str) -> None:
    with pytest.raises(GradcastError, match=message) as caught:
        load("digits", settings)
    assert "\n" not in str(caught.value)


def test_places_of_several_pools_are_looked_at_too(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text('pool = [{ name = "grey" }, { name = "folder", path = "../secret" }]')
    with pytest.raises(GradcastError, match=r"pool\.path = '\.\./secret' .*climbs out of its folder"):
        load(str(path))


def test_another_schedule_keeps_nothing() -> None:
    steps = load("acl-digits", ["schedule.name=steps", "learner.name=finetune"]).rows[0].setting.schedule
    assert steps == StepsSpec(name="steps")
    with pytest.raises(GradcastError, match=r"row 'mean-teacher': unknown key 'schedule.ramp' \(schedule 'plateau'\)"):
        load("digits-100", ["schedule.name=plateau"])  # what a row says itself stays
    plateau = load("svhn-1000", ["schedule.name=plateau", "row.mean-teacher.schedule.name=plateau"]).rows[0].setting
    assert plateau.plateau == PlateauSpec()
    constant = load("svhn-1000", ["schedule.name=constant", "row.mean-teacher.schedule.name=constant"]).rows[0].setting
    assert (constant.schedule, "schedule" in constant.model_dump()) == (ConstantSpec(), False)
    same = load("digits-100", ["schedule.name=steps"]).rows[0].setting
    assert same == load("digits-100").rows[0].setting


def test_the_form_before_is_an_unknown_key() -> None:
    for change in ("semi.steps=20", "semi.labels=100"):
        with pytest.raises(GradcastError, match=r"unknown key 'semi\.\w+'"):
            load("digits-100", [change])
    for learner in ("mg", "mean-teacher"):
        with pytest.raises(GradcastError, match=f"learner.name = '{learner}' is unknown"):
            load("digits-100", [f"learner.name={learner}"])


def test_a_pool_of_the_caller_takes_the_place_of_all() -> None:
    spec = override(load("digits", [TWO.replace(', pool = "grey"', ""), POOLS]), {"pool": {"name": "python"}})
    assert [[pool.name for pool in row.setting.pool] for row in spec.rows] == [["python"]] * 3


def test_a_preset_upon_other_data_is_named_after_them(tmp_path: Path) -> None:
    place = f"stream.path={tmp_path / 'Holiday Photos'}"
    found = load("digits", ["stream.source=folder", place])
    assert (found.name, found.title) == ("holiday-photos", "Holiday Photos, with the settings of digits")
    assert load("digits", ["stream.source=mnist"]).name == "mnist"
    named = load("digits", ["stream.source=folder", place, "name=mine", "title=My own"])
    assert (named.name, named.title) == ("mine", "My own")
    assert load("digits", ["stream.tasks=3"]).name == "digits"


def test_a_file_of_ones_own_keeps_its_name(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(dump(load("digits")).replace('name = "digits"', 'name = "kept"', 1))
    assert load(str(file), ["stream.source=mnist"]).name == "kept"


def test_keys_of_tables_within_a_table_are_set_one_by_one() -> None:
    spec = load("digits", ["model.rates.body=0.5", "model.rates.head=2"])
    assert all(row.setting.model.rates == {"body": 0.5, "head": 2} for row in spec.rows)
    with pytest.raises(GradcastError, match=r"unknown key 'stream\.tasks\.three'"):
        load("digits", ["stream.tasks.three=3"])
