from gradcast.sweeps.over import all_over
from gradcast.sweeps.request import requested
from gradcast.sweeps.sweep_files import SweepPlan
from gradcast.sweeps.sweep_page import tuned_on
from tests.sweeps.tuned import tuned
from tests.trained_runs import small


def test_the_page_needs_no_other_file_and_shows_panels_trials_and_the_comparison() -> None:
    page = (tuned().directory / "sweep.html").read_text()
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "https://" not in page
    assert page.count("<svg") >= 2  # panels, and paired differences
    for words in ("signal.alpha", "learner.lr", "All trials", "tuned against GEM", "No test image was looked at"):
        assert words in page
    assert "prefers-color-scheme" in page


def test_what_was_tuned_on_is_told_in_words() -> None:
    spec = small()
    asked = requested({"over": ["learner.lr=0.1"], "tune_tasks": 2, "validation": 0.25, "tune_seeds": 1})
    said = tuned_on(SweepPlan(tuned().directory, spec, spec.rows[1], asked, all_over(asked.over)[1]))
    assert "tested on 25 % of the training images" in said
    assert "seeds 100." in said
    assert "Only the first 2 tasks" in said
