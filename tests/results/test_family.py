from gradcast.results.family import Match, claims, judge_run, judge_unknown, matches, twins
from gradcast.results.sample import Sample
from gradcast.specs.text import load, parse
from tests.trained_runs import small

TEN = [80.0, 81.0, 79.0, 82.0, 80.5, 79.5, 81.5, 80.2, 79.8, 81.1]
BETTER = [value + 1 + 0.1 * place for place, value in enumerate(TEN)]


def test_rows_are_compared_with_the_first_and_with_those_that_lack_a_signal_or_a_head_start() -> None:
    spec = load("icifar100-resnet-er-best")
    names = [row.name for row in spec.rows[1:]]
    assert matches(spec, alone=False) == [Match(name, "base") for name in names]
    found = {row.name: twins(spec, row) for row in spec.rows}
    assert found["signal"] == found["head-start"] == ["averaged"]
    assert found["both"] == ["signal", "head-start"]
    assert found["base"] == found["averaged"] == []
    assert set(matches(spec)) == {Match(name, base) for name in names for base in ["base", *found[name]]}


def test_rows_of_another_stream_are_not_compared() -> None:
    assert matches(small("row.predicted.stream.ratio=0.5")) == [Match("random", "base")]


def test_rows_that_are_not_finished_are_in_the_family_and_controls_are_not() -> None:
    rates = [{"name": f"rate-{rate}", "learner": {"lr": rate / 10}} for rate in (2, 3)]
    rows = [{"name": "base"}, *rates, {"name": "noise", "signal": {"name": "noise"}}]
    spec = parse({"name": "own", "row": rows})
    samples = {"base": Sample.of("base", TEN), "rate-2": Sample.of("rate-2", BETTER)}
    (found,) = judge_run(spec, samples).values()
    assert found.family == 2
    assert judge_run(spec, samples, [0.5, 0.5])[Match("rate-2", "base")].family == 4


def test_two_names_of_one_comparison_are_one_claim() -> None:
    rows = [{"name": "base"}, *({"name": name, "learner": {"lr": 0.2}} for name in ("rate", "again"))]
    spec = parse({"name": "own", "row": rows})
    samples = {"base": Sample.of("base", TEN), "rate": Sample.of("rate", BETTER), "again": Sample.of("again", BETTER)}
    found = judge_run(spec, samples, [])
    assert found[Match("rate", "base")] == found[Match("again", "base")]
    assert {own.family for own in found.values()} == {1}
    other = judge_run(
        spec, samples | {"again": Sample.of("again", TEN[::-1])}, []
    )  # trained again, with another result
    assert {own.family for own in other.values()} == {2}


def test_a_gain_waits_for_its_control_and_must_beat_it() -> None:
    spec = small()  # base, predicted, random
    samples = {"base": Sample.of("base", TEN), "predicted": Sample.of("predicted", BETTER)}
    match = Match("predicted", "base")
    assert judge_run(spec, samples)[match].verdict.startswith("open: control not finished: GEM + random directions")
    assert judge_run(spec, samples | {"random": Sample.of("random", TEN)})[match].kind == "helps"
    same = judge_run(spec, samples | {"random": Sample.of("random", BETTER)})[match]
    assert same.kind == "no more than its control"


def test_claims_without_the_task_come_on_top_of_those_with_it() -> None:
    rates = [{"name": f"rate-{rate}", "learner": {"lr": rate / 10}} for rate in (2, 3)]
    spec = parse({"name": "own", "row": [{"name": "base"}, *rates]})
    samples = {"base": Sample.of("base", TEN), "rate-2": Sample.of("rate-2", BETTER)}
    known = judge_run(spec, samples)
    (first,) = known.values()
    assert sorted(claims(known.values())) == [first.wilcoxon, 1.0]  # rate-3 is not finished
    (second,) = judge_unknown(spec, samples, known).values()
    assert (first.family, second.family) == (2, 4)
    assert first.wilcoxon_holm == 2 * first.wilcoxon
    assert second.wilcoxon_holm == 4 * first.wilcoxon
