"""Numbers of the pages are those of the stored results, and each figure names its command.

`benchmarks/pages/stored_numbers.py` says how a page marks a table that is made, and the numbers of
a paragraph that are stored.
"""

import json
import re

import numpy as np
import pytest
from matplotlib.image import imread

from benchmarks.harness.running import studies
from benchmarks.pages.drawn_figures import FIGURES, draw
from benchmarks.pages.made_tables import TABLES
from benchmarks.pages.stored_numbers import (
    TABLE,
    claims,
    faults_of,
    prose_without_claims,
    value_of,
    with_tables,
)
from tests.docs.reading import PAGES, README, ROOT, name

DOCS = ROOT / "docs"
PERFORMANCE = DOCS / "performance.md"
# Pages that must say where their figures are from.
MARKED = [README, PERFORMANCE, *(DOCS / f"{n}.md" for n in ("reference_posteriors", "scaling"))]


def sections():
    """The parts of the performance page with their titles."""
    return re.split(r"^## ", PERFORMANCE.read_text(), flags=re.MULTILINE)[1:]


@pytest.mark.parametrize("path", [README, *PAGES], ids=name)
def test_numbers_and_tables_are_those_of_the_stored_results(path):
    """`python -m benchmarks plots` writes the tables; a number in a sentence is yours to mend."""
    assert faults_of(path.read_text(), TABLES) == []


@pytest.mark.parametrize("path", MARKED, ids=name)
def test_pages_with_measured_figures_say_where_they_are_from(path):
    text = path.read_text()
    assert TABLE.search(text) or list(claims(text))


def test_the_error_rates_of_the_verdict_are_those_of_its_campaign():
    """Of runs whose chains had seen every mode: in the README, and on the page of the campaign."""
    rows = json.loads((ROOT / "benchmarks/results/verdicts.json").read_text())["rows"].values()
    seen = [(status, *n) for row in rows for status, n in row["counts"].get("seen", {}).items()]
    runs = sum(right + wrong for _, right, wrong in seen)
    wrong = sum(wrong for *_, wrong in seen)
    missed = sum(wrong for status, _, wrong in seen if status == "converged")
    words = r"Of ([\d ]+) runs whose \D+ ([\d ]+) are wrong, and (\d+) of them are called"
    assert numbers_in(DOCS / "theory" / "verdict.md", words) == [runs, wrong, missed]
    words = r"it called (\d+) of ([\d ]+) wrong ones converged"
    assert numbers_in(README, words) == [missed, wrong]


def numbers_in(path, pattern):
    """The groups of a sentence of a page, as integers."""
    found = re.search(pattern, " ".join(path.read_text().split()))
    return [int(number.replace(" ", "")) for number in found.groups()]


def test_no_number_of_the_performance_page_is_without_a_record():
    assert list(prose_without_claims(PERFORMANCE.read_text())) == []
    assert list(prose_without_claims("It takes 8.5 minutes.\n")) == ["8.5"]


def test_a_wrong_number_is_noticed():
    """In a sentence, in a table, in a comment, and where the result is not there at all."""
    text = PERFORMANCE.read_text()
    for right, wrong, words in (
        ("after 8.4 minutes", "after 8.3 minutes", "is not in the paragraph"),
        ("8.4 = [lenet, SGHMC", "8.3 = [lenet, SGHMC", "8.3 is 8.4 in"),
        ("| LeNet, SGHMC | 8.4 |", "| LeNet, SGHMC | 8.3 |", "table `mnist` is not that"),
        ("[lenet, SGHMC > minutes]", "[lenet, SGHMC > hours]", "not in benchmarks/results"),
        ("<!-- table mnist -->", "<!-- table mnists -->", "no table `mnists`"),
        ("<!-- end of table -->", "", "has no end"),
    ):
        assert text.count(right) >= 1
        faults = faults_of(text.replace(right, wrong, 1), TABLES)
        assert [fault for fault in faults if words in fault], (wrong, faults)


def test_a_changed_result_is_noticed(monkeypatch):
    """What is stored changes, and the page as it is is wrong; the command writes it again."""
    text = PERFORMANCE.read_text()
    tables = TABLES | {"mnist": lambda: "| another |"}
    assert faults_of(text, tables) == ["the table `mnist` is not that of the stored results"]
    written = with_tables(text, tables)
    assert "| another |" in written and faults_of(written, tables) == []
    assert with_tables(text, TABLES) == text


def test_a_formula_is_paths_and_arithmetic():
    content = {"a b": {"c": [1, 4]}}
    assert value_of(content, "100 * [a b > c > 0] / [a b > c > 1]") == 25
    with pytest.raises(ValueError, match="not arithmetic"):
        value_of(content, "len([a b > c > 0])")
    with pytest.raises(KeyError):
        value_of(content, "[a > c]")


def test_every_table_and_figure_names_a_command_that_exists():
    found = sections()
    assert len(found) == 5
    for text in found:
        commands = re.findall(r"^`python -m benchmarks (\w+)", text, re.MULTILINE)
        commands += re.findall(r", `python -m benchmarks (\w+)", text)
        assert commands and set(commands) <= set(studies()), text.splitlines()[0]
        ((alt, image),) = re.findall(r"!\[([^]]*)\]\(([^)]*)\)", text)
        assert len(alt) > 80 and (DOCS / image).is_file()
        ((_, _, table, _),) = TABLE.findall(text)
        # What is said of the figure is in the table.
        assert [n for n in re.findall(r"\d+\.\d+", alt) if n not in table] == []


def test_every_figure_is_shown_once_with_words_for_it():
    text = "".join(page.read_text() for page in PAGES)
    shown = re.findall(r"!\[([^]]*)\]\(\S*figures/performance/(\w+)\.png\)", text)
    assert sorted(name for _, name in shown) == sorted(FIGURES)
    assert all(len(alt) > 80 for alt, _ in shown)


def test_the_page_is_short():
    text = TABLE.sub("", PERFORMANCE.read_text())
    text = re.sub(r"<!--.*?-->|!\[[^]]*\]\([^)]*\)", "", text, flags=re.DOTALL)
    assert len(text.split()) <= 900


@pytest.mark.parametrize("figure", FIGURES)
def test_a_figure_is_that_of_the_stored_results(figure, tmp_path):
    """As drawn now, up to the rendering of letters; another figure is not."""
    draw(figure).savefig(tmp_path / "now.png", dpi=170)
    stored = coarse(DOCS / "figures" / "performance" / f"{figure}.png")
    now = coarse(tmp_path / "now.png")
    assert stored.shape == now.shape and np.abs(stored - now).max() < 0.25
    assert stored[0, 0] == 1, "it is white where there is nothing"
    moved = np.roll(now, 2, axis=1)
    assert np.abs(stored - moved).max() > 0.25, "a dot elsewhere would be noticed"


def coarse(path, size=16):
    """Brightness of squares of so many pixels."""
    grey = imread(path)[..., :3].mean(-1)
    rows, columns = (n // size for n in grey.shape)
    squares = grey[: rows * size, : columns * size].reshape(rows, size, columns, size)
    return squares.mean((1, 3))
