"""`bayesnn notebooks`: copies with and without solutions, and nobody's work written over."""

import json
from pathlib import Path

import pytest

import bayesnn_ppl
from bayesnn_ppl.cli import main
from bayesnn_ppl.cli.teaching.versions import student_version, with_badges

HIDDEN = {"tags": ["solution"], "jupyter": {"source_hidden": True}}
NOTEBOOK = {
    "nbformat": 4,
    "nbformat_minor": 5,
    "metadata": {},
    "cells": [
        {"cell_type": "markdown", "id": "1", "metadata": {}, "source": ["# Title"]},
        {
            "cell_type": "code",
            "id": "2",
            "metadata": {"bayesnn": {"broken": {}}, "tags": ["claim"]},
            "source": ["assert 1 + 1 == 2, 'é'"],
            "execution_count": 3,
            "outputs": [{"output_type": "stream", "name": "stdout", "text": ["4\n"]}],
        },
        {
            "cell_type": "code",
            "id": "3",
            "metadata": HIDDEN,
            "source": ["2 + 2"],
            "execution_count": 4,
            "outputs": [],
        },
    ],
}


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A package beside a folder of two notebooks."""
    (tmp_path / "bayesnn_ppl").mkdir()
    monkeypatch.setattr(bayesnn_ppl, "__file__", str(tmp_path / "bayesnn_ppl" / "__init__.py"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notebooks").mkdir()
    text = json.dumps(NOTEBOOK, ensure_ascii=False)
    for name in ("00_a.ipynb", "01_b.ipynb"):
        (tmp_path / "notebooks" / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_they_are_copied_as_they_are(installed, capsys):
    assert main(["notebooks", "course"]) == 0
    assert "2 notebooks in course: 00_a.ipynb to 01_b.ipynb" in capsys.readouterr().out
    for name in ("00_a.ipynb", "01_b.ipynb"):
        copy, source = (installed / folder / name for folder in ("course", "notebooks"))
        assert copy.read_bytes() == source.read_bytes()


def test_students_get_neither_outputs_nor_solutions(installed, capsys):
    assert main(["notebooks", "course", "--student", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["notebooks"] == ["00_a.ipynb", "01_b.ipynb"]
    text = (installed / "course" / "00_a.ipynb").read_text(encoding="utf-8")
    title, claim, solution = json.loads(text)["cells"]
    assert title == NOTEBOOK["cells"][0]
    assert claim["source"] == NOTEBOOK["cells"][1]["source"]
    assert (claim["outputs"], claim["execution_count"]) == ([], None)
    assert claim["metadata"] == {"tags": ["claim"]}
    assert solution["source"] == ["# your answer"]
    assert solution["metadata"] == {"tags": ["solution"]}


def test_a_student_version_leaves_the_notebook_as_it_is():
    before = json.dumps(NOTEBOOK)
    student_version(NOTEBOOK)
    assert json.dumps(NOTEBOOK) == before


def test_badges_open_a_notebook_in_a_repository_of_ones_own(installed, capsys):
    assert main(["notebooks", "course", "--student", "--github", "me/bayes@week-3"]) == 0
    assert "its badges then open them" in " ".join(capsys.readouterr().out.split())
    notebook = json.loads((installed / "course" / "01_b.ipynb").read_text(encoding="utf-8"))
    first = "".join(notebook["cells"][0]["source"])
    assert first.startswith("# Title\n\n[![Open in Colab](")
    assert "/github/me/bayes/blob/week-3/01_b.ipynb)" in first
    assert "/v2/gh/me/bayes/week-3?labpath=01_b.ipynb)" in first
    assert notebook["cells"][2]["source"] == ["# your answer"]
    # Binder installs what this file names.
    assert (installed / "course" / "requirements.txt").read_text() == "bayesnn_ppl[notebooks]\n"


def test_badges_keep_the_text_below_the_title():
    cells = [{"cell_type": "markdown", "metadata": {}, "source": ["# Title\n", "\n", "Text."]}]
    made = with_badges({"cells": cells}, "a.ipynb", repository="me/bayes", branch="main")
    lines = made["cells"][0]["source"].split("\n")
    assert (lines[0], lines[1], lines[3:]) == ("# Title", "", ["", "Text."])
    assert cells[0]["source"] == ["# Title\n", "\n", "Text."]


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (["--github", "bayes"], "OWNER/NAME"),
        (["--slides", "--student"], "--slides makes pages, and --student notebooks"),
        (["--slides", "--github", "me/bayes"], "--slides makes pages, and --github notebooks"),
    ],
)
def test_versions_that_cannot_be_are_refused(installed, capsys, typed, words):
    assert main(["notebooks", "course", *typed]) != 0
    assert words in capsys.readouterr().err
    assert not (installed / "course").exists()


def test_nothing_is_written_over(installed, capsys):
    assert main(["notebooks", "course"]) == 0
    (installed / "course" / "00_a.ipynb").write_text("my work")
    assert main(["notebooks", "course", "--student"]) == 1
    error = capsys.readouterr().err
    assert "already holds 00_a.ipynb and 1 more of the notebooks" in error
    assert (installed / "course" / "00_a.ipynb").read_text() == "my work"


def test_an_installation_without_them_says_so(installed, capsys):
    for path in (installed / "notebooks").iterdir():
        path.unlink()
    assert main(["notebooks", "course"]) == 1
    assert "not in this installation" in capsys.readouterr().err
    assert not (installed / "course").exists()


def test_an_installed_package_holds_them_itself(installed):
    (installed / "notebooks").rename(installed / "bayesnn_ppl" / "notebooks")
    assert main(["notebooks", "course"]) == 0
    assert len(list((installed / "course").iterdir())) == 2


def test_the_repository_is_found():
    folder = Path(__file__).parents[2] / "notebooks"
    assert (folder / "README.md").exists()
