import pytest

from gradcast.errors import GradcastError
from gradcast.learners.agem import AgemSpec
from gradcast.learners.registry import LEARNERS
from gradcast.reproduce.cells import Cell
from gradcast.reproduce.experiment import load, names
from gradcast.signals.icl import IclSpec
from gradcast.signals.mutexmatch import MutexMatchSpec
from gradcast.specs.controls import controls_of, role
from gradcast.specs.spec import Row
from gradcast.specs.text import load as load_preset
from tests.reproduce.scene import TEXT, experiment

TABLES, OWN, FIGURES = (
    [f"E{n}" for n in range(1, 12)],
    ["C", "P1", "P2", "P3", "S1", "Z1"],
    [f"F{n}" for n in range(6, 13)],
)


def test_every_published_table_and_figure_and_our_own_are_there() -> None:
    assert names() == [*TABLES, *OWN, "Z2", *FIGURES]
    assert sum(len(load(name).items) for name in names()) == 664
    assert not any(load(name).published for name in OWN)
    assert all(load(name).published for name in TABLES)


@pytest.mark.parametrize("name", [*TABLES, *OWN, "Z2", *FIGURES])
def test_all_parse_have_their_own_id_and_distinct_rows(name: str) -> None:
    found = load(name)
    rows = [item.name for item in found.items]
    assert found.header.id == name
    assert len(set(rows)) == len(rows)
    assert all((item.setting is None) == bool(item.missing) for item in found.items)
    quick = found.changed({"stream": {"tasks": 3}}, rows)
    assert all(item.setting.stream.tasks == 3 for item in quick.items if item.setting is not None)


def test_rows_have_published_constants() -> None:
    rows = {
        name: load("E3").item(name) for name in ("resnet-gem-predicted", "resnet-dcl-predicted", "effnet-dcl-predicted")
    }
    settings = {name: item.setting for name, item in rows.items()}
    found = {
        name: (s.learner.name, s.policy.p, s.signal[0].alpha, s.signal[0].loss_scale, s.signal[0].hidden)  # type: ignore[union-attr]
        for name, s in settings.items()
    }
    assert found == {
        "resnet-gem-predicted": ("gem", 0.3, 0.005, 2.0, [128, 32]),
        "resnet-dcl-predicted": ("dcl", 0.3, 0.005, 2.5, [128, 32]),
        "effnet-dcl-predicted": ("dcl", 0.35, 0.005, 2.0, [128, 32]),
    }
    assert rows["resnet-gem-predicted"].published == {"acc": 68.74, "bwt": 0.0619, "fwt": 0.0055}


@pytest.mark.parametrize(
    ("table", "row", "values"),
    [
        ("E1", "gem-predicted", {"start": (0, 50)}),
        ("E1", "dcl-predicted", {"start": (0, 50)}),
        ("E2", "gem-predicted", {"start": (0, 50)}),
        ("E2", "dcl-predicted", {"start": (0, 50), "p": (0.1, 0.15)}),
        ("E3", "resnet-dcl-predicted", {"interval": (4, 5)}),
        ("E5", "acl-predicted", {"start": (0, 5)}),
    ],
)
def test_rows_at_the_papers_values_differ_from_the_scripts_in_these_alone(
    table: str, row: str, values: dict[str, tuple[float, float]]
) -> None:
    script, paper = (load(table).item(name) for name in (row, f"{row}-paper"))
    assert script.setting is not None
    assert paper.setting is not None
    assert paper.published == script.published
    one, other = script.setting.model_dump(), paper.setting.model_dump()
    found = {
        key: (one[part][key], other[part][key])
        for part in one
        if isinstance(one[part], dict)
        for key in one[part]
        if one[part][key] != other[part][key]
    }
    assert found == values
    assert [part for part in one if not isinstance(one[part], dict) and one[part] != other[part]] == []


def test_agem_has_its_usual_constants() -> None:
    row = load("E3").item("a-gem")
    assert row.setting is not None
    assert row.setting.learner == AgemSpec(name="a-gem", lr=0.03, memory=65, reference=256)
    assert row.published == {"acc": 67.14, "bwt": 0.0037, "fwt": 0.0087}


def test_semi_supervised_methods_are_carried_by_gem() -> None:
    mutex, icl, host = (load("E3").item(name) for name in ("mutexmatch", "icl", "resnet-gem"))
    assert host.setting is not None
    alike = [host.setting.pool[0].model_copy(update={"scale": "labelled"})]  # as in their public code
    mutexmatch = {"signal": [MutexMatchSpec(name="mutexmatch")], "pool": alike}
    assert mutex.setting == host.setting.model_copy(update=mutexmatch)
    twice = host.setting.policy.model_copy(update={"batch": 8})  # two batches of 4 are mixed
    assert icl.setting == host.setting.model_copy(
        update={"signal": [IclSpec(name="icl")], "policy": twice, "pool": alike}
    )
    assert (host.setting.learner.lr, host.setting.stream.batch, host.setting.policy.batch) == (0.1, 10, 4)
    assert (mutex.against, icl.against) == ("resnet-gem", "resnet-gem")
    assert mutex.published == {"acc": 68.09, "bwt": 0.0156, "fwt": 0.0021}
    assert icl.published == {"acc": 67.23, "bwt": 0.0084, "fwt": -0.0012}


def test_a_row_without_a_description_says_that_it_is_not_reproduced() -> None:
    row = load("E3").item("glimpse")
    assert (row.setting, row.missing) == (None, "not reproduced: no description of the method is to be found")
    assert row.published == {"acc": 66.87, "bwt": 0.0169, "fwt": -0.0031}
    assert experiment().item("ewc").missing == "not reproduced: no EWC"
    assert load("E3").item("mutexmatch").missing == ""


def test_scaled_controls_have_the_length_of_the_predicted_rows() -> None:
    found = {item.name: item.setting for item in load("C").items if "pl-true" in item.name}
    lengths = {name: setting.signals[-1].alpha for name, setting in found.items()}  # type: ignore[union-attr]
    assert lengths == {
        "mnist-r-1-pl-true": 0.001,
        "mnist-r-p-pl-true": 0.001,
        "icifar-1-pl-true": 0.005,
        "icifar-p-pl-true": 0.005,
    }


def test_a_row_is_the_common_setting_and_what_differs() -> None:
    gem, predicted = (experiment().item(name).setting for name in ("gem", "predicted"))
    assert gem is not None
    assert predicted is not None
    assert (gem.signals, [own.name for own in predicted.signals]) == ([], ["predicted"])
    assert gem.stream == predicted.stream


def test_a_sweep_is_a_row_for_each_value_with_its_own_published_figures() -> None:
    found = {item.name: item for item in experiment().items if item.sweep and item.sweep.name == "p"}
    assert {name: item.published for name, item in found.items()} == {"p-0.25": {"acc": 81.0}, "p-1": {"acc": 83.5}}
    assert [item.setting.policy.p for item in found.values() if item.setting] == [0.25, 1.0]
    assert {item.against for item in found.values()} == {"gem"}


def test_at_the_value_that_adds_nothing_stands_the_row_that_a_sweep_is_compared_with() -> None:
    """Without predictions GEM is trained once, for all tables."""
    for table, sweep, base in (
        ("F6", "icifar-p", "icifar-gem"),
        ("F6", "mnist-r-p", "mnist-r-gem"),
        ("F7", "p", "base"),
    ):
        found = load(table)
        none, some = found.item(f"{sweep}-0"), found.item(f"{sweep}-0.3")
        assert (none.setting, none.against) == (found.item(base).setting, "")
        assert (some.setting != none.setting, some.against) == (True, base)
    alone = TEXT.replace('values = [0.25, 1.0]\nagainst = "gem"', "values = [0.25, 1.0]\nnothing = 0.25")
    with pytest.raises(GradcastError, match=r"the sweep 'p' needs the row that policy\.p = 0\.25 stands for"):
        experiment(alone)


def test_a_sweep_against_a_sweep_is_compared_value_by_value() -> None:
    pairs = {item.name: item.against for item in experiment().items if item.sweep and item.sweep.name == "ratio"}
    assert pairs == {"ratio-0.5": "base-0.5", "ratio-1": "base-1"}


def test_rows_may_be_like_those_of_another_experiment() -> None:
    own = load("E7").item("none").setting
    assert own == load("E3").item("resnet-gem").setting
    common = load("E7").item("coco").setting
    like = load("E3").item("resnet-gem-predicted").setting
    assert common is not None
    assert like is not None
    assert common.signal == like.signal
    assert [pool.name for pool in common.pool] == ["coco"]


def test_what_differs_from_a_row_elsewhere_counts() -> None:
    own, like = load("C").item("icifar-labelled").setting, load("E3").item("resnet-gem").setting
    assert own is not None
    assert like is not None
    assert (own.signal[0].name, own.pool[0].name, own.stream.ratio) == ("true-labels", "held-out", 0.8)
    assert (own.model, own.learner, own.policy) == (like.model, like.learner, like.policy)


def test_no_two_controls_are_the_same() -> None:
    settings = [item.setting for item in load("C").items]
    assert None not in settings
    assert all(settings.count(own) == 1 for own in settings)


def test_rows_that_are_controls_say_of_what() -> None:
    tables = {name: load(name) for name in ("C", "E3")}
    marked = {item.name: item.control for own in tables.values() for item in own.items if item.control is not None}
    assert marked["mnist-r-perturbed"] == marked["mnist-r-directions-frozen"] == ["mnist-r-predicted"]
    assert marked["resnet-gem-frozen-h"] == ["resnet-gem-predicted"]
    with pytest.raises(GradcastError, match=r"row 'predicted' is a control of 'nobody', which is no row"):
        experiment(TEXT.replace('label = "GEM + predicted"', 'label = "GEM + predicted"\ncontrol = "nobody"'))


@pytest.mark.parametrize("name", ["P1", "P2"])
def test_rows_of_pools_differ_by_pool_and_head_start_alone_and_random_pixels_gate_them(name: str) -> None:
    rows = [Row(name=own.name, label=own.label, setting=own.setting, control=own.control)
            for own in load(name).items if own.setting is not None]  # fmt: skip
    base, *others = rows
    assert [role(row) for row in others if row.name == "pixels"] == ["control"]
    for row in others:
        changes = {"pool": row.setting.pool, "head_start": row.setting.head_start}
        assert base.setting.model_copy(update=changes) == row.setting
        assert controls_of(row, others) == ([] if row.name == "pixels" else ["pixels"])
    assert {item.against for item in load(name).items} == {"", "base"}


def test_rows_of_the_preset_are_among_those_of_learners() -> None:
    """Its policy says nothing to rows without a signal."""
    preset = {row.name: Cell(row.setting).name for row in load_preset("icifar100-resnet-er-best").rows}
    table = {item.name: Cell(item.setting).name for item in load("P3").items if item.setting is not None}
    assert (table["er"], table["er-head-start"], table["er-pixels"]) == (
        preset["averaged"],
        preset["head-start"],
        preset["blank"],
    )


def test_values_may_have_names_that_say_more() -> None:
    found = {item.name: item for item in load("P2").items if item.sweep and item.sweep.name == "images"}
    assert [(name, item.label, item.value) for name, item in found.items()][:1] == [
        ("images-1200", "3,000 steps, images 1200", "1200")
    ]
    shares = [item.setting.pool[0].ratio for item in found.values() if item.setting is not None]
    assert [round(12000 * share) for share in shares] == [1200, 4000, 12000]


def test_architectures_of_h_have_names() -> None:
    assert [item.name for item in load("F7").items if item.sweep and item.sweep.name == "h"][:5] == [
        "h-linear",
        "h-32",
        "h-64",
        "h-128",
        "h-64-16",
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('against = "gem"\npublished = { acc = 82.0 }', 'against = "gme"'), "'gme', which is no row"),
        (("signal.alpha = 0.5", "signal.alfa = 0.5"), "signal.alfa"),
        (('of = "predicted"\nkey = "policy.p"', 'of = "E3/resnet"\nkey = "policy.p"'), "no row 'resnet'"),
        (('of = "predicted"\nkey = "policy.p"', 'of = "E3/glimpse"\nkey = "policy.p"'), "cannot be run, so nothing"),
    ],
)
def test_mistakes_are_named(change: tuple[str, str], message: str) -> None:
    assert TEXT.count(change[0]) == 1
    with pytest.raises(GradcastError, match=message):
        experiment(TEXT.replace(*change))


def test_an_unknown_id_or_row_is_answered_with_the_nearest() -> None:
    with pytest.raises(GradcastError, match="did you mean 'E1'"):
        load("E1x")
    with pytest.raises(GradcastError, match="did you mean 'gem'"):
        experiment().item("gen")
    assert load("e1") == load("E1")


def test_all_learners_are_compared_at_matched_memory() -> None:
    """But for those that have networks of their own, or are somebody else's."""
    table = load("Z1")
    learners = {item.setting.learner.name for item in table.items if item.setting is not None}
    assert set(LEARNERS.own) - learners == {"multimodal", "acl", "pnn", "hat", "python"}
    for item in table.items:
        assert item.setting is not None
        learner, images = item.setting.learner, item.label.rpartition(", ")[2]
        if learner.name == "icarl":  # sets shrink with the number of classes
            kept = sum(5 * (learner.memory // (5 * task)) for task in range(1, 21))  # type: ignore[attr-defined]
            assert kept == {"5,120 images": 4575, "500 images": 505}[images]
        elif images.endswith(" images"):
            assert 20 * learner.memory == int(images.split()[0].replace(",", ""))  # type: ignore[attr-defined]


def test_replay_methods_have_the_protocol_that_their_figures_are_of() -> None:
    preset = {row.name: row.setting for row in load_preset("split-cifar10-replay").rows}
    table = {item.name: item for item in load("Z2").items}
    for name in ("er-200", "er-500", "der-200", "der-500", "der-plus-plus-200", "der-plus-plus-500"):
        own = table[name].setting
        assert own is not None
        assert Cell(own).name == Cell(preset[name]).name
    assert table["er-500"].published == {"acc": 93.61, "acc_unknown": 57.74}
    short = {name for name, item in table.items() if item.setting is not None and item.setting.stream.epochs == 10}
    assert short == {"gem-500", "a-gem-500", "icarl-500", "icarl-original-500", "hal-500"}
    assert all("10 epochs" in table[name].label for name in short)


def test_few_labels_in_a_stream_have_every_signal_beside_each_learner() -> None:
    """Four streams, two learners; every row is compared with its own base and differs from it by its signal alone."""
    found = load("S1")
    bases = [item for item in found.items if not item.against]
    assert len(bases) == 8
    assert len(found.items) == 8 * (4 + 12)
    for item in found.items:
        assert item.setting is not None
        if item.sweep is not None:
            base = found.item(item.against).setting
            assert base is not None
            assert item.setting.model_copy(update={"signal": base.signal}) == base
            assert item.name.startswith(item.against)
        if item.name.endswith("-average"):  # all that a mean teacher has but for unlabelled images
            base = found.item(item.against).setting
            assert base is not None
            assert item.setting.model_copy(update={"evaluation": base.evaluation}) == base
            assert item.control == [f"{item.against}-mean-teacher"]
