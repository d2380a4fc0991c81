"""What a notebook gets when it becomes a page of the site."""

import re
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


def some_lessons(lessons, **needs):
    """Lessons "01" and so on of given needs; their keys are such as `of_02`."""
    import lesson_graph

    numbers = ("01", *(key[3:] for key in needs))
    return [
        lesson_graph.Lesson(
            n, f"Title {n}", f"pages/{n}", tuple(needs.get(f"of_{n}", ())), 30, 20, 10
        )
        for n in numbers
    ]


def test_the_graph_has_boxes_apart_and_only_the_lines_that_do_not_follow(lessons):
    found = some_lessons(
        lessons, of_02=["01"], of_03=["01", "02"], of_04=["01"], of_05=["03", "04"], of_06=["04"]
    )
    drawn = lessons.graph(found)
    boxes = re.findall(r'<rect x="([\d.]+)" y="(\d+)" width="(\d+)"', drawn)
    assert len(boxes) == len(found) and drawn.count("<path") == 6  # 01 to 03 follows
    rows = {}
    for x, y, width in boxes:
        rows.setdefault(int(y), []).append((float(x), float(x) + float(width)))
    assert [len(row) for _, row in sorted(rows.items())] == [1, 2, 2, 1]
    for row in map(sorted, rows.values()):
        assert all(left[1] < right[0] for left, right in zip(row, row[1:], strict=False))
    # The line from 04 to 05 passes a row between its boxes.
    ((x, y),) = re.findall(r" ([\d.]+) (\d+)V", drawn)
    assert not any(left <= float(x) <= right for left, right in rows[int(y)])
    assert '<a href="pages/06.html">' in drawn and "03 needs 01, 02" in drawn


def test_a_need_that_comes_later_is_refused(lessons):
    with pytest.raises(ValueError, match="02 needs 03"):
        lessons.graph(some_lessons(lessons, of_02=["03"], of_03=["01"]))


def test_timings_add_up(lessons):
    table = lessons.timings(some_lessons(lessons, of_02=["01"], of_03=["02"]))
    assert "| [02 Title 02](pages/02.ipynb) | 01 | 20 min | 10 min | 30 s |" in table
    assert "| **all** | | 1 h | 0 h | 2 min |" in table


def test_a_first_cell_without_times_is_refused(lessons):
    with pytest.raises(ValueError, match="Lesson 02"):
        lessons.lesson("# 02 Title\n\n**Prerequisites**: notebook 01.\n", "pages/02")
