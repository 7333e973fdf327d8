from gradcast.bench.bench_result import Bench, Comparison, Growth
from gradcast.bench.bench_tables import Part, machine_in_words, parts
from gradcast.bench.step_times import Timing
from gradcast.bench.streams import Throughput
from gradcast.bench.whole_stream import WholeStream

SLOW, OURS = Timing(45.0, None, None), Timing(0.7, 0.75, 0.671)


def test_columns_without_an_entry_are_left_out() -> None:
    part = Part("title", ("a", "b", "c"), [["1", "", ""], ["2", "", "3"]], ["said"]).filled()
    assert part == Part("title", ["a", "c"], [["1", ""], ["2", "3"]], ["said"])


def test_a_step_is_told_with_what_was_recorded_of_it() -> None:
    pinned, bare = Timing(7.0, None, 0.5), Timing(0.7, None, None)
    whole = Bench({}, comparisons=[Comparison("slim-resnet18", "tf32", 20, SLOW, pinned, OURS)], agreement=2.4e-13)
    part = parts(whole)["steps"]
    assert part.headings == ["network", "task", "released", "pinned", "ours", "violating", "share", "faster"]
    assert part.rows == [["resnet18 tf32", "20", "45.0", "7.00", "0.70", "0.75", "67 %", "64 (10)"]]
    assert "to 2e-13 in float64" in part.remarks[-1]
    less = Bench({}, comparisons=[Comparison("mlp", "float32", 2, SLOW, None, bare)], peak_mb={"mlp float32": 200})
    part = parts(less)["steps"]
    assert part.headings == ["network", "task", "released", "ours", "faster"]
    assert part.rows == [["mlp float32", "2", "45.0", "0.70", "64"]]
    assert "pinned" not in " ".join(part.remarks).lower()
    assert part.remarks[-1] == "Peak GPU memory of our step at task 20: mlp float32 0.2 GB."


def test_sizes_of_one_kind_share_a_row() -> None:
    found = [Growth("mlp", "float32", *kind, OURS) for kind in (("task", 2), ("replicas", 1), ("task", 5))]
    rows = [["mlp float32", "task", "2: 0.70, 5: 0.70"], ["mlp float32", "replicas", "1: 0.70"]]
    assert parts(Bench({}, growth=found))["growth"].rows == rows


def test_a_stream_of_which_a_part_was_timed_is_told_as_about() -> None:
    streams = [Throughput(4, 240.04, 1.0, False, None), Throughput(64, 18.1, 212.2, True, 5628)]
    part = parts(Bench({}, streams=streams, real_data=False))["streams"]
    assert part.rows == [["4", "about 240.0", "about 1.0", ""], ["64", "18.1", "212", "5,628"]]
    assert "random images" in part.title
    assert "images" not in parts(Bench({}, streams=streams))["streams"].title


def test_a_whole_stream_stands_beside_both_kinds_of_the_classical_one() -> None:
    part = parts(Bench({}, whole_stream=WholeStream(released=66.04, pinned=31.0, ours=20.0), real_data=True))
    assert [row[1:] for row in part["whole-stream"].rows] == [["66.0", "3.3"], ["31.0", "1.6"], ["20.0", ""]]
    assert part["whole-stream"].title.endswith("(MNIST)")


def test_the_machine_is_told_with_what_was_recorded_of_it() -> None:
    whole = {"device": "cpu", "processor": "EPYC", "threads": 2, "versions": {"torch": "2.13.0"}}
    assert machine_in_words(Bench(whole, 20)) == "cpu, EPYC, 2 threads, torch 2.13.0, 20 steps of each kind"
    assert machine_in_words(Bench({"device": "cpu", "threads": 1})) == "cpu, 1 thread"
    assert machine_in_words(Bench({"device": "NVIDIA H200"})) == "NVIDIA H200"
