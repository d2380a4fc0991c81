"""Every block of the documentation: Python runs, page by page; commands parse, and the tour's run.

`README.md` has a test of its own, `tests/house/test_readme.py`.
"""

import re
import shlex
from pathlib import Path

import pytest

from bayesnn_ppl.cli import main
from bayesnn_ppl.cli.commands import build_parser

ROOT = Path(__file__).parents[2]
PAGES = sorted(p for p in (ROOT / "docs").rglob("*.md") if "_" != p.parent.name[0])
LANGUAGES = {"python", "console", "text", "toml", "{toctree}", "{include}", "{eval-rst}"}
# What a page types besides our own command.
OTHERS = ("python3 -m venv", ". .venv/bin/activate", "pip install", "make ")
TOUR = ROOT / "docs" / "tour.md"
# What makes a command of the tour short enough for a test; it is added to the words of the page.
SHORTER = {
    "sample": ["--warmup", "50", "--draws", "20", "--chains", "2", "--seed", "0"],
    "extend": ["--draws", "10"],
    "report": ["--gradients", "5"],
}


def blocks(path, language=None):
    """(language, text) of the fenced blocks of a page, those of lists included."""
    found = re.findall(r"^( *)```([^\n]*)\n(.*?)^\1```", path.read_text(), re.DOTALL | re.MULTILINE)
    return [
        (words.split()[0] if words else "", text)
        for _, words, text in found
        if language is None or words.startswith(language)
    ]


def pages_with(language):
    return [
        pytest.param(path, id=str(path.relative_to(ROOT / "docs")))
        for path in PAGES
        if blocks(path, language)
    ]


def commands(path):
    return [
        line.strip().removeprefix("$ ")
        for _, text in blocks(path, "console")
        for line in text.splitlines()
        if line.strip().startswith("$ ")
    ]


@pytest.mark.parametrize("path", [p for p in pages_with("python") if p.values[0] != TOUR])
def test_the_python_of_a_page_runs(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {}
    for _, text in blocks(path, "python"):
        exec(compile(text, str(path), "exec"), names)
    assert "bnn" in names, "a page of this library uses it"


def test_the_tour_from_beginning_to_end(tmp_path, monkeypatch, capsys):
    """Its blocks in their order, Python and commands, as a reader types them."""
    monkeypatch.chdir(tmp_path)
    names, shown = {}, {}
    for language, text in blocks(TOUR):
        if language == "python":
            exec(compile(text, str(TOUR), "exec"), names)
            continue
        assert language == "console"
        for line in text.splitlines():
            words = shlex.split(line.removeprefix("$ "))[1:]
            capsys.readouterr()
            assert main(words + SHORTER.get(words[0], [])) == 0, line
            shown[words[0]] = "".join(capsys.readouterr())
    table = Path("flats.csv").read_text().splitlines()
    assert table[0] == "size,age,price,district_centre,district_north,district_south"
    assert "Diagnosis: " in shown["sample"] and "Prior predictive: " in shown["prior"]
    assert f"{len(table) - 1} rows" in shown["predict"]
    assert len(Path("all.csv").read_text().splitlines()) == len(table) < 301
    assert "laplace" in shown["compare"] and Path("runs/flats/report.html").exists()
    assert Path("report.html").exists()


@pytest.mark.parametrize("path", pages_with("console"))
def test_the_commands_of_a_page_parse(path):
    assert commands(path)
    for command in commands(path):
        if command.startswith("bayesnn "):
            words = shlex.split(command)[1:]
            if words == ["--version"]:
                continue
            arguments, unknown = build_parser()[0].parse_known_args(words)
            assert unknown == [] and callable(arguments.run)
        else:
            assert command.startswith(OTHERS), command


def test_a_command_that_does_not_exist_would_be_noticed():
    with pytest.raises(SystemExit):
        build_parser()[0].parse_args(["reprot", "runs/flats"])
    assert build_parser()[0].parse_known_args(["report", "a", "--colour"])[1] == ["--colour"]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT / "docs")))
def test_every_block_says_what_it_is(path):
    assert {language for language, _ in blocks(path)} <= LANGUAGES | {""}
