import pytest

from gradcast.errors import GradcastError
from gradcast.specs.text import dump, parse
from gradcast.sweeps.candidates import best_spec, caution, tuning_spec, with_values
from gradcast.sweeps.request import requested
from tests.trained_runs import small

ASKED = requested({"over": ["learner.lr=0.1"], "tune_tasks": 2})


def test_values_change_one_row_alone() -> None:
    spec = small()
    changed = with_values(spec, "predicted", {"learner.lr": 0.5, "signal.alpha": 0.25})
    assert [row.setting.learner.lr for row in changed.rows] == [0.1, 0.5, 0.1]  # type: ignore[union-attr]
    assert with_values(changed, "predicted", {"learner.lr": 0.1, "signal.alpha": 0.001}) == spec


def test_the_tuning_stream_holds_training_images_out_and_ends_early() -> None:
    spec = tuning_spec(small(), small().rows[1], ASKED)
    (row,) = spec.rows
    assert (row.setting.stream.validation, row.setting.stream.task_count, spec.seeds) == (0.1, 2, [100, 101, 102])


def test_streams_that_say_it_themselves_and_too_many_tasks_are_refused() -> None:
    for spec, asked, sentence in (
        (small("stream.validation=0.2"), ASKED, "leave it out, use --validation"),
        (small("stream.first_tasks=2"), ASKED, "leave it out, use --tune-tasks"),
        (small(), requested({"over": ["learner.lr=0.1"], "tune_tasks": 4}), "more than the 3 tasks"),
    ):
        with pytest.raises(GradcastError, match=sentence):
            tuning_spec(spec, spec.rows[1], asked)


def test_the_best_stands_beside_the_base_on_the_whole_stream() -> None:
    spec = small()
    final = best_spec(spec, spec.rows[1], {"learner.lr": 0.5}, [0, 1])
    assert [row.name for row in final.rows] == ["base", "predicted"]
    assert final.rows[1].label == "GEM + predicted gradients, tuned"
    assert all(row.setting.stream == spec.rows[0].setting.stream for row in final.rows)
    assert parse(dump(final)) == final
    alone = best_spec(spec, spec.rows[0], {"learner.lr": 0.5}, [0])
    assert [row.name for row in alone.rows] == ["base", "base-tuned"]


def test_a_base_that_was_not_tuned_is_named() -> None:
    spec = small()
    said = caution(best_spec(spec, spec.rows[1], {"learner.lr": 0.5}, [0]), ["learner.lr"])
    assert "GEM was not tuned: it has another learner.lr (0.1, tuned 0.5)" in said
    assert caution(best_spec(spec, spec.rows[1], {"signal.alpha": 0.5}, [0]), ["signal.alpha"]) == ""  # it has none
    assert caution(best_spec(spec, spec.rows[0], {"learner.lr": 0.5}, [0]), ["learner.lr"]) == ""  # it is the point
