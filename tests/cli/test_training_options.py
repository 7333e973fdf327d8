import inspect
import json
from pathlib import Path

import pytest

from gradcast.cli.run_command import run
from gradcast.cli.ssl_command import ssl
from gradcast.cli.training_options import Training, train
from gradcast.errors import GradcastError
from gradcast.results.quick import QUICK_LOOK
from gradcast.runs.checkpoint.keeper import Safety
from tests.cli.process import called
from tests.cli.test_ssl_command import short
from tests.trained_runs import small


def test_it_takes_whatever_run_takes(tmp_path: Path) -> None:
    assert set(inspect.signature(ssl).parameters) == {*inspect.signature(run).parameters, "quick", "steps"}
    often = called(
        "ssl", *short(), "--seeds", "1", "--checkpoint-steps", "5", "--deterministic", "--json", cwd=tmp_path
    )
    again = called("ssl", *short(), "--seeds", "1", "--deterministic", "--out", "other", "--json", cwd=tmp_path)
    one, other = (tmp_path / json.loads(result.stdout)["directory"] for result in (often, again))
    weights = "mg/seed-0/weights.safetensors"
    assert (one / weights).read_bytes() == (other / weights).read_bytes()
    wrong = called("ssl", *short(), "--log", "tensorbord", cwd=tmp_path)
    assert (wrong.returncode, "did you mean 'tensorboard'" in wrong.stderr) == (2, True)


def test_what_is_saved_and_where_a_run_begins() -> None:
    assert Training().safety == Safety()
    assert Training(checkpoint_minutes=2.0, checkpoint_steps=3, on_nan="skip").safety == Safety(2.0, 3, "auto", "skip")
    assert (Training(resume=True).safety.start, Training(fresh=True).safety.start) == ("resume", "fresh")
    with pytest.raises(GradcastError, match="--fresh starts it over; leave one out"):
        assert Training(resume=True, fresh=True).safety


@pytest.mark.parametrize("quick", [False, True])
def test_a_quick_look_says_so_on_the_screen_and_to_programs(
    tmp_path: Path, quick: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = small(f'title="{QUICK_LOOK if quick else "digits"}"', "seeds=[0]")
    train(spec, Training(out=tmp_path, device="cpu", threads=1))
    assert (QUICK_LOOK in capsys.readouterr().out) is quick
    train(spec, Training(out=tmp_path, device="cpu", threads=1, json=True))
    assert json.loads(capsys.readouterr().out)["quick"] is quick
