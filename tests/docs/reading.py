"""The pages of the project, and what of them is to be typed."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
# What the documentation's site is made of; folders with an underscore are built.
PAGES = sorted(p for p in (ROOT / "docs").rglob("*.md") if "_" != p.parent.name[0])
README = ROOT / "README.md"
# Those that stand outside it, and whose commands are typed all the same.
OTHERS = [README, ROOT / "CONTRIBUTING.md", ROOT / "notebooks" / "README.md"]
FIRST = ROOT / "docs" / "index.md"
TOUR = ROOT / "docs" / "tour.md"
PYTHON = ROOT / "docs" / "python.md"
SHELL = ROOT / "docs" / "shell.md"
# The methods whose examples are run and drawn by `test_method_pages.py`, and nowhere else.
DRAWN = ("HMC", "SGHMC", "Laplace")
# How a line begins that is typed into a shell, where a block does not say so by `$`.
PROGRAMS = ("bayesnn ", "make ", "pip install ", "jupyter lab ")


def name(path):
    """A page as tests are called by it."""
    return str(path.relative_to(ROOT))


def blocks(path, language=None):
    """(language, text) of the fenced blocks of a page, those of lists included."""
    found = re.findall(r"^( *)```([^\n]*)\n(.*?)^\1```", path.read_text(), re.DOTALL | re.MULTILINE)
    return [
        (words.split()[0] if words else "", text)
        for _, words, text in found
        if language is None or words.startswith(language)
    ]


def typed_lines(language, text):
    """The commands of a block, without their `$`; of one that is not typed none."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if language == "console":
        return [line.removeprefix("$ ") for line in lines]
    if language == "" and lines[0].startswith(PROGRAMS):
        return lines
    return []


def commands(path):
    """The lines that a reader of the page types into a shell, in their order."""
    return [line for block in blocks(path) for line in typed_lines(*block)]


def user_model(path):
    """The block of the page that is a model of one's own, for a file such as my_model.py."""
    (text,) = [text for _, text in blocks(path, "python") if "def model(x, y=None" in text]
    return text
