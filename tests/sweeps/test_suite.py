from pathlib import Path

import pytest

from gradcast.errors import GradcastError
from gradcast.sweeps.over import as_text
from gradcast.sweeps.suite import read_suite, run_suite
from tests.sweeps.tuned import OVER, tuned
from tests.trained_runs import SMALL

TOO_MANY = "task 0 has 1297 training images, stream.samples asks for 40000; lower it"
RUN = '[[run]]\nwhat = "digits"\n'
SWEEP = '[[sweep]]\nwhat = "digits"\nrow = "predicted"\nseeds = 2\ntune_seeds = 2\n'


def listed(*settings: str) -> str:
    return f"set = {[*SMALL, 'seeds=[0, 1, 2]', *settings]}".replace("'", '"')


def written(folder: Path, text: str) -> Path:
    file = folder / "mine.toml"
    file.write_text(text)
    return file


def test_runs_and_sweeps_have_one_report_and_a_failure_stops_nobody(tmp_path: Path) -> None:
    over = "over = " + str(as_text(OVER)).replace("'", '"')
    text = f"{RUN}{listed('stream.samples=40000')}\n{RUN.replace('digits', 'own.toml')}\n{SWEEP}{over}\n{listed()}\n"
    (tmp_path / "own.toml").write_text("seeds = [3]\nstream = {tasks = 2, samples = 20}\n")  # beside the suite
    suite = read_suite(written(tmp_path, text))
    assert suite.parts[1].spec.seeds == [3]
    assert suite.name == "mine"
    made = run_suite(suite, out=tuned().directory.parent, device="cpu")
    assert list(made.results) == ["run 2 (own.toml)", "sweep 1 (digits)"]
    assert made.results["sweep 1 (digits)"].directory == tuned().result.directory  # nothing is trained again
    assert made.failed == [f"run 1 (digits): {TOO_MANY}"]
    assert made.report == tuned().directory.parent / "suite-mine" / "report.html"
    page = made.report.read_text()
    assert all(result.directory.name in page for result in made.results.values())
    assert made.cautions == ([f"sweep 1 (digits): {tuned().caution}"] if tuned().caution else [])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "lists nothing"),
        ("runs = 3", "did you mean 'run'"),
        ("run = 3", r"write each as \[\[run\]\]"),
        ('[[run]]\nwhat = "digits"\nseed = 3', "did you mean 'run.seeds'"),
        ("[[run]]\nseeds = 3", "run.what is missing"),
        ('[[run]]\nwhat = "digitz"', r"run 1 \(digitz\): there is no preset or file 'digitz'; did you mean 'digits'"),
        ('[[run]]\nwhat = "digits"\nseeds = 2\nset = ["seeds=[1]"]', "seeds is given twice"),
        ('[[sweep]]\nwhat = "digits"\novr = ["a=1"]', "did you mean 'sweep.over'"),
        ('[[sweep]]\nwhat = "digits"\nover = ["learner.lr=1"]\nseeds = 200', "is tuned on and reported"),
        ('name = "A b"\n[[run]]\nwhat = "digits"', "suite.name = 'A b' is not valid"),
        ("[[", "is not valid TOML"),
    ],
)
def test_mistakes_are_sentences_before_anything_is_trained(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(GradcastError, match=sentence):
        read_suite(written(tmp_path, text))


def test_a_file_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(GradcastError, match="does not exist"):
        read_suite(tmp_path / "nothing.toml")
