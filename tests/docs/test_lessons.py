"""What a notebook gets when it becomes a page of the site."""

import sys
from pathlib import Path

import pytest

from tests.docs.reading import ROOT

PAGES = {"04": "04_what.ipynb"}


@pytest.fixture
def lessons(monkeypatch):
    """The extension, which lies outside the package."""
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "ext"))
    monkeypatch.delitem(sys.modules, "lessons", raising=False)
    import lessons

    return lessons


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("See notebook 04.", "See [notebook 04](04_what.ipynb)."),
        ("Next: **04 What it says**.", "Next: [**04 What it says**](04_what.ipynb)."),
        ("[notebook 04](x.md) and **05 No such**", "[notebook 04](x.md) and **05 No such**"),
        ("[the tour](../docs/tour.md)", "[the tour](../../tour.md)"),
    ],
)
def test_lessons_that_are_named_are_links(lessons, text, expected):
    assert lessons._linked(text, PAGES) == expected


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ("*Left: $\\sigma$ grows.*\n\nMore.", "Left: sigma grows."),
        ("**Figure 1.** Two modes.\n\nMore.", "Figure 1. Two modes."),
        ("A plain paragraph with *stress*.", "Figure 2 of the lesson 04 What"),
        ("*" + "word " * 100 + "end*", "word " * 59 + "word ..."),
    ],
)
def test_a_figure_is_told_by_its_caption(lessons, after, expected):
    cell = {"cell_type": "markdown", "metadata": {}, "source": [after]}
    assert lessons._alternative(cell, "04 What", 2) == expected
    assert lessons._alternative(None, "04 What", 2) == "Figure 2 of the lesson 04 What"
    exercise = {**cell, "metadata": {"tags": ["exercise"]}}
    assert lessons._alternative(exercise, "04 What", 2) == "Figure 2 of the lesson 04 What"


def test_contributing_links_to_the_pages_of_notebooks(lessons):
    text = "[04](notebooks/04_what.ipynb), `notebooks/`"
    for name, expected in (
        ("CONTRIBUTING.md", "[04](_generated/notebooks/04_what.ipynb), `notebooks/`"),
        ("CHANGELOG.md", text),
    ):
        content = [text]
        lessons._to_pages(None, Path("..", name), "contributing", content)
        assert content == [expected]
