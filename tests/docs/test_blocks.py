"""Every block of the documentation says what it is, and its Python runs, page by page.

What is typed into a shell is in `test_commands.py`, and the tour with it. The Python of `README.md`
is in `tests/house/test_readme.py`, that of `docs/python.md` in `test_python_page.py`, and that of
three methods' pages in `test_method_pages.py`.
"""

import ast

import matplotlib.pyplot
import pytest

from tests.docs.reading import DRAWN, FIRST, PAGES, PYTHON, README, TOUR, blocks, name

# A language is here when a test of this folder runs it; `text` is what nobody types.
LANGUAGES = {"python", "console", "text"}
LANGUAGES |= {"{toctree}", "{include}", "{eval-rst}", "{figure}", "{math}", "{raw}"}


def run_elsewhere(path):
    """Whether another test runs the Python of a page."""
    return path in (FIRST, PYTHON, TOUR) or ("methods" in path.parts and path.stem in DRAWN)


@pytest.mark.check
@pytest.mark.parametrize(
    "path", [p for p in PAGES if blocks(p, "python") and not run_elsewhere(p)], ids=name
)
def test_the_python_of_a_page_runs(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {}
    for _, text in blocks(path, "python"):
        exec(compile(text, str(path), "exec"), names)
    assert "bnn" in names, "a page of this library uses it"
    matplotlib.pyplot.close("all")  # ArviZ's plots stay open until they are closed.


def test_the_first_page_has_the_example_of_the_readme():
    """But for comments; that of the README is run, and must converge."""
    (first,), (readme,) = (
        [ast.dump(ast.parse(text)) for _, text in blocks(path, "python")]
        for path in (FIRST, README)
    )
    assert first == readme


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_every_block_says_what_it_is(path):
    assert {language for language, _ in blocks(path)} <= LANGUAGES
    for _, text in blocks(path, "console"):
        assert all(line.strip().startswith("$ ") for line in text.splitlines()), text
