from pathlib import Path

import pytest

from gradcast.specs.text import load


def labels(*settings: str, name: str = "split-digits") -> dict[str, str]:
    return {row.name: row.label for row in load(name, settings).rows}


@pytest.mark.parametrize("settings", [[], ["learner.lr=0.3"], ["learner.name=er"], ["model.heads=all"]])
def test_labels_stay_where_the_method_does(settings: list[str]) -> None:
    assert labels(*settings)["er-200"] == "ER, 200 images"


def test_another_learner_is_told_in_rows_that_have_it() -> None:
    found = labels("learner.name=der-plus-plus")
    assert found["er-200"] == "ER, 200 images, changed to DER++, loss over classes seen"
    assert found["finetune"] == "finetune"  # a row's own table wins


def test_a_signal_that_is_added_is_told() -> None:
    found = labels("row.er-200.signal.name=noise")
    assert found["er-200"] == "ER, 200 images, changed to ER, loss over classes seen + normal noise"
    assert found["er-50"] == "ER, 50 images"


def test_a_label_of_the_callers_own_is_kept() -> None:
    assert labels("learner.name=der", "row.er-200.label=mine")["er-200"] == "mine"


def test_rows_without_labels_are_described_as_ever() -> None:
    assert "changed to" not in "".join(labels("learner.name=er", name="digits").values())


def test_a_file_that_only_settings_make_whole_can_be_loaded(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[learner]\nmomentum = 2.0\n[[row]]\nname = "a"\nlabel = "A"\n')
    assert labels("learner.momentum=0.5", "learner.name=er", name=str(file)) == {"a": "A"}
