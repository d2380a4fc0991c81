"""What needs what, and how long it takes, read from the lessons' first cells."""

import re
import sys

import pytest

from tests.docs.reading import ROOT
from tests.notebooks.execution import paths, read

TEACHING = ROOT / "docs" / "teaching.md"
HEAD = (
    "# 05 Symmetries & what\n\n**You will learn**\n\n- One.\n\n"
    "**Prerequisites**: notebooks 02\nand 04, and patience.\n"
    "**Time**: about 20 s of computing on two cores, 30 minutes of reading, 15 minutes of\n"
    "exercises."
)


@pytest.fixture
def made(monkeypatch):
    """The extension, which lies outside the package."""
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "ext"))
    monkeypatch.delitem(sys.modules, "lesson_graph", raising=False)
    import lesson_graph

    return lesson_graph


def lessons(made, needs):
    """Lessons of the numbers given, each with the numbers that it needs."""
    heads = {
        number: re.sub("02\nand 04", " and ".join(others) or "none", HEAD).replace(
            "# 05", f"# {number}"
        )
        for number, others in needs.items()
    }
    return [made.lesson(text, f"pages/{number}") for number, text in heads.items()]


def test_the_first_cell_is_read(made):
    found = made.lesson(HEAD, "pages/05_symmetries")
    assert (found.number, found.title, found.needs) == ("05", "Symmetries & what", ("02", "04"))
    assert (found.computing, found.reading, found.exercises) == (20, 30, 15)
    with pytest.raises(ValueError, match="Lesson 05: no line of prerequisites"):
        made.lesson(HEAD.replace("Prerequisites", "Needs"), "pages/05")


def test_lessons_are_below_what_they_need(made):
    found = lessons(made, {"00": [], "01": [], "02": ["00"], "03": ["02", "01"]})
    assert [[one.number for one in row] for row in made._rows(found)] == [
        ["00", "01"],
        ["02"],
        ["03"],
    ]
    drawn = made.graph(found)
    assert drawn.count("<path") == 3 and drawn.count("<rect") == 4
    assert 'href="pages/03.html"' in drawn and "Symmetries &amp;" in drawn
    assert "03 needs 02, 01" in drawn


def test_a_lesson_that_comes_later_cannot_be_needed(made):
    with pytest.raises(ValueError, match="Lesson 01 needs 03, which does not come before it"):
        made.graph(lessons(made, {"01": ["03"], "03": []}))


def test_boxes_are_apart_and_no_line_follows_from_others(made):
    needs = {"01": [], "02": ["01"], "03": ["01", "02"], "04": ["01"], "05": ["03", "04"]}
    drawn = made.graph(lessons(made, {**needs, "06": ["04"]}))
    assert drawn.count("<path") == 6, "01 to 03 follows from 01 to 02 to 03"
    rows = {}
    for x, y, width in re.findall(r'<rect x="([\d.]+)" y="(\d+)" width="(\d+)"', drawn):
        rows.setdefault(y, []).append((float(x), float(x) + float(width)))
    assert [len(row) for row in rows.values()] == [1, 2, 2, 1]
    for row in map(sorted, rows.values()):
        assert all(one[1] < other[0] for one, other in zip(row, row[1:], strict=False))
    # The line from 04 to 05 passes the row between them, and no box of it.
    ((x, y),) = re.findall(r" ([\d.]+) (\d+)V", drawn)
    assert not any(left <= float(x) <= right for left, right in rows[y])


def test_a_long_title_is_cut(made):
    assert made._wrapped("19 Dropout, SWAG, ensembles") == ["19 Dropout, SWAG,", "ensembles"]
    assert made._wrapped("a " * 40)[2].endswith(" …") and len(made._wrapped("a " * 40)) == 3


def test_times_are_summed(made):
    table = made.timings(lessons(made, {"00": [], "01": ["00"], "02": ["00"]}))
    assert table.splitlines()[-1] == "| **all** | | 2 h | 1 h | 1 min |"
    assert "| [01 Symmetries & what](pages/01.ipynb) | 00 | 30 min | 15 min | 20 s |" in table


def test_the_notebooks_need_few_others(made):
    found = [made.lesson(read(path).cells[0].source, path.stem) for path in paths()]
    made.graph(found)
    assert max(len(one.needs) for one in found) <= 3, "what is needed directly, not all before"


def test_no_week_of_the_course_needs_a_later_one(made):
    """Each lesson but that on several devices has its week, and so has what it needs."""
    needs = {
        one.number: one.needs
        for one in (made.lesson(read(path).cells[0].source, path.stem) for path in paths())
    }
    rows = re.findall(r"^\| (\d) \| [^|]+ \| ([\d, ]+) \|", TEACHING.read_text(), re.MULTILINE)
    week = {number: int(when) for when, numbers in rows for number in numbers.split(", ")}
    assert week.keys() == needs.keys() - {"15"}
    late = [(one, need) for one in week for need in needs[one] if week[need] > week[one]]
    assert late == []
