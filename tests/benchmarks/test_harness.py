"""What all studies share: their names, options and sizes, finished parts on disk, and tables."""

import importlib
import json
import re
from pathlib import Path

import pytest

from benchmarks.harness.records import Record, write_result
from benchmarks.harness.running import app_of, in_own_process, run, studies
from benchmarks.harness.tables import Table, markdown, mean_and_error, plus_minus
from benchmarks.harness.timing import in_turns, median_ratio

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "benchmarks").rglob("*.py"))
PAGES = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *FILES]


def quoted():
    """Page, study and words of every command that a page or docstring quotes in one line."""
    for page in PAGES:
        text = page.read_text()
        for name, rest in re.findall(r"python -m benchmarks ([a-z]\w+)([^`#\n]*)", text):
            yield page, name, re.sub(r"[\[\]]", "", rest).split()


def test_names_are_unique_and_every_study_is_listed(capsys):
    files = [f for f in FILES if re.search(r"^def main\(", f.read_text(), re.MULTILINE)]
    assert len(files) == len(studies()) > 35
    assert run([]) is None
    listed = capsys.readouterr().out
    assert all(re.search(rf"^  {name} +\S", listed, re.MULTILINE) for name in studies())
    with pytest.raises(SystemExit, match="Did you mean `leapfrog`"):
        run(["leapfrogs"])


@pytest.mark.parametrize("name", studies())
def test_a_study_has_options(name, capsys):
    """It can be imported, and what it does when it is called is not what --help does."""
    assert run([name, "--help"]) is None
    assert f"python -m benchmarks {name}" in capsys.readouterr().out


def test_every_quoted_command_is_understood():
    """Of those that leave words open, and of names in passing, only the study is looked for."""
    checked = 0
    for page, name, words in quoted():
        assert name in studies(), f"{page} quotes a study `{name}`"
        if words and not any(re.search(r"\.\.\.|[{}]|NAME|WORDS", word) for word in words):
            app_of(name).parse_args(words, exit_on_error=False, print_error=False)
            checked += 1
    assert checked > 20


def test_modules_and_folders_are_small():
    long = {f for f in FILES if len(f.read_text().splitlines()) > 300}
    folders = {f.parent for f in FILES}
    crowded = {d for d in folders if len([f for f in d.glob("*.py") if f.stem[0] != "_"]) > 15}
    assert not long and not crowded


def test_a_record_is_resumed_part_by_part(tmp_path, capsys):
    path = tmp_path / "study.json"

    def begun():
        return Record(path, part="runs", key=("data", "split"), settings={"rows": (1, 2)})

    wanted = [(data, split) for data in "ab" for split in (0, 1)]
    record = begun()
    for count, key in enumerate(record.missing(wanted, minutes=0)):
        record[key] = {"score": float("nan")}
        assert count == 0
    assert "3 parts are left" in capsys.readouterr().out
    stored = json.loads(path.read_text())
    assert stored["runs"] == [{"data": "a", "split": 0, "score": None}]
    assert stored["settings"] == {"rows": [1, 2]}
    assert stored["made"].keys() == {"command", "machine", "versions", "date"}
    assert list(begun().missing(wanted)) == wanted[1:]
    assert begun().rows["a", 0]["score"] is None
    with pytest.raises(SystemExit, match="other settings"):
        Record(path, part="runs", key=("data", "split"), settings={"rows": [3]})


@pytest.mark.parametrize("key", [(), ("case",)])
def test_rows_alone_are_read_and_what_stood_beside_rows_stays(tmp_path, key):
    path, row = tmp_path / "old.json", {"case": "a", "score": 1}
    path.write_text(json.dumps([row] if key else {"a": row}))
    record = Record(path, part="cells", key=key)
    record["b"] = {"case": "b", "score": 2}
    assert Record(path, part="cells", key=key).rows == {"a": row, "b": {"case": "b", "score": 2}}
    old = {"draws": 3, "made": "long ago", "cells": [row] if key else {"a": row}}
    path.write_text(json.dumps(old))
    record = Record(path, part="cells", key=key, summary=lambda rows: {"best": rows[-1]["score"]})
    record["b"] = {"case": "b", "score": 2}
    stored = json.loads(path.read_text())
    assert (stored["draws"], stored["best"]) == (3, 2) and stored["made"] != "long ago"


def test_lines_are_appended_and_nothing_is_written_without_a_path(tmp_path):
    path = tmp_path / "lines.jsonl"
    for _ in range(2):
        record = Record(path, key=("trial",))
        record[len(record.rows)] = {"same": True}
    lines = path.read_text().splitlines()
    assert [json.loads(line) for line in lines] == [{"trial": t, "same": True} for t in (0, 1)]
    memory = Record(None)
    memory["a"] = 1
    assert memory.rows == {"a": 1} and list(tmp_path.iterdir()) == [path]


def test_a_command_is_stored_without_the_places_of_this_machine(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["x", "ard", "--only", "a b", "--out", str(tmp_path / "there")])
    write_result(tmp_path / "result.json", {"score": 1})
    stored = json.loads((tmp_path / "result.json").read_text())
    assert stored["made"]["command"] == "python -m benchmarks ard --only 'a b' --out there"


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks" / "results").glob("*.json*")))
def test_stored_results_are_read(path):
    lines = path.suffix == ".jsonl"
    text = path.read_text()
    stored = [json.loads(line) for line in text.splitlines()] if lines else json.loads(text)
    key = tuple(stored[0])[:1] if isinstance(stored, list) else ()
    assert Record(path, key=key).rows


def test_tables(capsys):
    table = Table("N >4", " <2", "name <6", "ratio, % >+9.1f")
    table.row(10, None, "ab", 1.25)
    table.row(None, None, "c", "never")
    lines = ["   N  name   ratio, %", "  10  ab         +1.2", "      c         never"]
    assert capsys.readouterr().out.splitlines() == lines
    assert markdown(["a", "b"], [(1, "x")]) == "| a | b |\n| --- | --- |\n| 1 | x |"
    assert plus_minus(*mean_and_error([1.0, 3.0])) == "2.000 ± 1.000"
    assert plus_minus(*mean_and_error([1.0]), 1) == "1.0" and plus_minus(None) == "-"


def test_contenders_take_turns():
    said = []
    runs = {name: lambda name=name: said.append(name) or float(len(said)) for name in "ab"}
    found = in_turns(runs, 2)
    assert said == ["a", "b", "a", "b"] and found == {"a": [1.0, 3.0], "b": [2.0, 4.0]}
    assert median_ratio(found["a"], found["b"]) == 0.625


def test_a_function_in_a_process_of_its_own():
    module = importlib.import_module("benchmarks.scale.scaling")
    assert in_own_process(module.weights, [3]) == module.weights((3,))
