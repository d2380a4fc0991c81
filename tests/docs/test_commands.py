"""Every command of every page is typed, in the page's order, and does what the page says.

A command runs in this process, with its own words and those that make it short. What a page takes
to be there, such as the run of the tour or a table of one's own, is put there.
"""

import contextlib
import dataclasses
import io
import os
import re
import shlex
import shutil
import threading
import tomllib
import urllib.request
from pathlib import Path

import pytest
from fsspec.implementations.memory import MemoryFileSystem
from fsspec.registry import _registry
from sklearn.datasets import load_iris

import bayesnn_ppl as bnn
from bayesnn_ppl import storage
from bayesnn_ppl.cli import main
from bayesnn_ppl.cli.app import COMMANDS, METHODS, app_for
from bayesnn_ppl.cli.commands import notebooks, studies
from bayesnn_ppl.cli.shared import page_server as watching
from tests.cli.conftest import table, write_csv
from tests.docs.reading import (
    OTHERS,
    PAGES,
    ROOT,
    SHELL,
    TOUR,
    blocks,
    commands,
    name,
    typed_lines,
    user_model,
)

# What makes a command short, after its own words: of an option that is given twice the last counts.
SHORTER = {
    "compress": "--draws 5",
    "calibrate": "--replications 20 --rows 12 --warmup 30 --draws 40",
    "extend": "--draws 5",
    "fit": "--mode map --mode-epochs 50",
    # tests/report/gallery types it as it stands.
    "gallery": "--samplers HMC --targets banana --draws 40",
    "prior": "--draws 20 --rows 20",
    "report": "--gradients 5",
    "run": "--set draws=5 --set warmup=5",
    "sample": "--warmup 20 --draws 20 --chains 2 --seed 0",
    "study": "--jobs 1",
    "watch": "--port 0",
}
# The tour keeps NUTS, its network and enough draws for a report that has something to say.
SHORTER_TOUR = SHORTER | {"sample": "--warmup 50 --draws 20 --chains 2 --seed 0"}
# What each command says when it has done its job.
SAYS = {
    "--version": f"bayesnn {bnn.__version__}",
    "calibrate": "Calibration: ",
    "check": "is whole.",
    "compare": "above best",
    "completion": "complete",
    "compress": "Saved ",
    "data": "rows",
    "diagnose": "Diagnosis: ",
    "doctor": "right: ",
    "evaluate": "rmse",
    "export": "Wrote the function to ",
    "extend": "draws per chain in ",
    "fit": "Diagnosis: ",
    "gallery": "Wrote the gallery to ",
    "models": "parameters",
    "notebooks": "22_your_first_model.",
    "predict": "Wrote the predictions for ",
    "prior": "Prior predictive: ",
    "report": "Wrote the report to ",
    "resume": " draws per chain",
    "run": "In a shell: bayesnn ",
    "runs": "VERDICT",
    "sample": "Diagnosis: ",
    "study": "Saved: ",
    "watch": "Watching ",
}
# What is not typed, and why. Nothing else may be left out.
NOT_RUN = {
    "python3 -m venv .venv": "makes an environment, and the tests are in one",
    ". .venv/bin/activate": "changes the shell that it is typed into",
    "pip install bayesnn_ppl": "downloads",
    "pip install 'bayesnn_ppl[cuda]'": "downloads",
    "pip install 'bayesnn_ppl[notebooks]'": "downloads",
    "pip install 'bayesnn_ppl[notebooks]' && jupyter lab course": "downloads, and serves",
    "jupyter lab course": "serves until it is ended; tests/notebooks runs the notebooks",
    "bayesnn sample mlp --distributed --coordinator host0:1234 --num-processes 2 --process-id 0 "
    "--out runs/pod": "needs two hosts; tests/distributed runs two processes of one",
}
# What is typed only where slow tests are wanted, as in CI; a shorter test of each runs everywhere.
SLOW = {
    "bayesnn sample mile mlp": "tests/cli/test_methods.py",
    "bayesnn sample mlp --processes 4 --out runs/four": "tests/cli/test_processes.py",
    "bayesnn study active-learning": "tests/cli/test_protocols.py",
    "bayesnn study cold-posterior --jobs 2": "tests/cli/test_studies.py",
}
SLOW_TOO = os.environ.get("BAYESNN_SLOW_TESTS", "") not in ("", "0")

AFTER_THE_TOUR = ("docs/how_to/converge.md", "docs/how_to/report.md", "docs/how_to/store.md")
ALL = [*PAGES, *OTHERS]
WITH_COMMANDS = [p for p in PAGES if commands(p) and p not in (SHELL, TOUR)]


def bare(line):
    """A command without its comment."""
    return line.partition(" #")[0].strip()


def shorter(words, flags):
    """What is added to the words of a command."""
    command, *rest = words
    more = flags.get(command, "").split()
    if command == "fit" and "ensemble" in rest:
        more = ["--epochs", "20"]
    if command in ("fit", "sample") and "mlp" in rest[:2] and "--hidden" not in rest:
        more += ["--hidden", "4"]
    if "--cluster" in rest:  # tests/cli/test_processes.py has two workers
        more += ["--cluster", "local:1"]
    if command != "sample" or flags is SHORTER_TOUR:
        return more
    if "mile" in rest:
        more += ["--warmup", "60"]
    elif "hmc" in rest:
        more += ["--num-leapfrogs", "3"]
    elif "tempered-smc" in rest:
        more += ["--chains", "8", "--warmup", "5", "--draws", "5"]
    return [*more, "--processes", "2"] if "--processes" in rest else more


def faster(words):
    """The words with a kernel in place of NUTS, which compiles for three times as long."""
    usual = words[0] in ("calibrate", "sample") and app_for(words)[1][1] == "nuts"
    rest = [word for word in words[1:] if word != "nuts"]
    return [words[0], "random-walk", *rest] if usual else words


def made(words):
    """The files, folders and addresses that a command says it makes."""
    command, *rest = words
    if "--out" in rest:
        out = rest[rest.index("--out") + 1]
        if out == "-":
            return []
        return [f"{out}/diagnosis.json" if "--processes" in rest else out]
    if command in ("gallery", "notebooks"):
        return [rest[0]]
    return [f"{rest[0]}/report.html"] if command == "report" and "://" not in rest[0] else []


def typed(line, flags=SHORTER):
    """Type a command of ours, look for what it makes, and return what it said."""
    words = shlex.split(line, comments=True)[1:]
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        typed_words = words if flags is SHORTER_TOUR else faster(words)
        status = main([*typed_words, *shorter(words, flags)])
    assert status == 0, f"`{line}` ended with {status}:\n{said.getvalue()}"
    if "--processes" not in words:  # workers say it on their own
        says = "row,mean,sd" if words[-2:] == ["--out", "-"] else SAYS[words[0]]
        assert says in said.getvalue(), f"`{line}` said:\n{said.getvalue()}"
    for place in made(words):
        assert storage.fetched(place).exists(), f"`{line}` made no {place}"
    return said.getvalue()


def targets():
    """Those of the Makefile."""
    return set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def follow(path):
    """Type all that a page says, and return what each command of ours said."""
    said = {}
    for line in map(bare, commands(path)):
        words = shlex.split(line)
        if words[0] == "make":
            assert words[1] in targets(), f"the Makefile has no target for `{line}`"
        elif line not in NOT_RUN and (SLOW_TOO or line not in SLOW):
            assert words[0] == "bayesnn", f"no test types `{line}`"
            said[line] = typed(line)
    return said


@pytest.fixture(scope="module")
def tour(tmp_path_factory):
    """The folder of a reader who has followed the tour, Python and commands, and what was said."""
    folder, before = tmp_path_factory.mktemp("tour"), os.getcwd()
    names, said = {}, {}
    os.chdir(folder)
    try:
        for language, text in blocks(TOUR):
            if language == "python":
                with contextlib.redirect_stdout(io.StringIO()):
                    exec(compile(text, str(TOUR), "exec"), names)
            for line in typed_lines(language, text):
                said[shlex.split(line)[1]] = typed(line, SHORTER_TOUR)
    finally:
        os.chdir(before)
    return folder, said


@pytest.fixture
def visited(monkeypatch):
    """What `watch` serves is opened once, as by a browser, and then Ctrl-C ends it."""
    seen = []

    class Visited(watching.ThreadingHTTPServer):
        def serve_forever(self, poll_interval):
            serving = threading.Thread(target=super().serve_forever, args=(poll_interval,))
            serving.start()
            try:
                host, port = self.server_address
                with urllib.request.urlopen(f"http://{host}:{port}/") as answer:
                    seen.append(answer.read().decode())
            finally:
                self.shutdown()
                serving.join()
            raise KeyboardInterrupt

    monkeypatch.setattr(watching, "ThreadingHTTPServer", Visited)
    return seen


@pytest.fixture
def bucket(monkeypatch, tmp_path):
    """The files of an object store in memory, at the addresses that begin with s3://."""

    class Store(MemoryFileSystem):
        protocol = ("s3",)
        store, pseudo_dirs = {}, [""]

        @classmethod
        def _strip_protocol(cls, path):
            return super()._strip_protocol(path.replace("s3://", "memory://"))

    monkeypatch.setitem(_registry, "s3", Store)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    return Store.store


@pytest.fixture
def one_cell(monkeypatch):
    """Of a study its first cell alone, and of active learning one round."""
    load = studies.load_study

    def reduced(which):
        study = load(which)
        tiny = dict(study.scales["tiny"])
        tiny["seeds"] = tiny["seeds"][:1]
        tiny["values"] = {key: values[:1] for key, values in tiny["values"].items()}
        tiny["protocol"] = tiny["protocol"] and {**tiny["protocol"], "rounds": 1}
        scales = {**study.scales, "tiny": tiny}
        return dataclasses.replace(study, arms=study.arms[:1], scales=scales)

    monkeypatch.setattr(studies, "load_study", reduced)


@pytest.fixture
def two_notebooks(monkeypatch):
    """Of the notebooks the first and the last: tests/cli/test_slides.py makes the slides of all."""
    every = notebooks._sources()
    monkeypatch.setattr(notebooks, "_sources", lambda: [every[0], every[-1]])


@pytest.fixture
def begun(tmp_path, monkeypatch, visited, bucket, one_cell, two_notebooks):
    """A function that makes a folder to work in, of what a page takes to be there."""

    def begin(path, after=None):
        monkeypatch.chdir(tmp_path)
        for file, rows in {"my": 40, "later": 30, "new": 20}.items():
            write_csv(Path(f"{file}.csv"), table(rows))
        iris = load_iris(as_frame=True)
        iris.data.assign(species=iris.target_names[iris.target]).to_csv("flowers.csv", index=False)
        if any("my_model.py" in line for line in commands(path)):
            Path("my_model.py").write_text(user_model(path))
        if after is not None:
            shutil.copytree(after / "runs", "runs")

    return begin


def test_the_tour_from_beginning_to_end(tour):
    folder, said = tour
    rows = (folder / "flats.csv").read_text().splitlines()
    assert rows[0] == "size,age,district,let,price" and any(",," in row for row in rows)
    assert "3 categories of 0 and 1: centre, north, south" in said["data"]
    assert f"{len(rows) - 1} rows" in said["predict"]
    assert len((folder / "all.csv").read_text().splitlines()) == len(rows) == 301
    assert "laplace" in said["compare"] and (folder / "runs/flats/report.html").exists()
    assert (folder / "report.html").exists()


@pytest.mark.check
@pytest.mark.parametrize(
    "path", [p for p in PAGES if commands(p) and p not in (SHELL, TOUR)], ids=name
)
def test_the_commands_of_a_page_run(path, request, begun):
    after = request.getfixturevalue("tour")[0] if name(path) in AFTER_THE_TOUR else None
    begun(path, after)
    if not follow(path):
        pytest.skip("BAYESNN_SLOW_TESTS is not set, and nothing else is typed")


@pytest.mark.check
def test_the_commands_of_the_page_of_commands_run(begun, visited):
    begun(SHELL)
    said = follow(SHELL)
    assert len(said) >= 24
    assert '"rmse"' in said["bayesnn evaluate runs/diabetes --json"]
    assert "HMC" in said["bayesnn runs"] and "SGHMC" in said["bayesnn runs"]
    (page,) = visited
    assert "Verdict" in page and "follow(" in page


@pytest.mark.check
@pytest.mark.parametrize("path", OTHERS, ids=name)
def test_the_commands_of_other_pages_run(path, begun):
    begun(path)
    follow(path)
    assert commands(path)


def test_what_is_left_out_is_on_a_page_and_is_no_nonsense():
    """No entry outlives its command, and those of ours are at least understood."""
    every = {bare(line) for path in ALL for line in commands(path)}
    assert {*NOT_RUN, *SLOW} <= every
    for line in NOT_RUN:
        if line.startswith("bayesnn "):
            app, words, _ = app_for(shlex.split(line)[1:])
            assert callable(app.parse_args(words, exit_on_error=False, print_error=False)[0])
    for place in SLOW.values():
        assert (ROOT / place).exists()


@pytest.mark.parametrize("path", ALL, ids=name)
def test_what_a_page_names_in_passing_is_there(path):
    """Commands within sentences, targets of the Makefile and extras of the package."""
    text = path.read_text()
    for line in re.findall(r"`(bayesnn [a-z][^`]*)`", text):
        words = line.split()[1:]
        assert words[0] in COMMANDS, line
        if len(words) > 1 and words[0] in METHODS and words[1] in ("KERNEL", "NAME", "METHOD"):
            continue  # any of them
        options = {*app_for(words)[2], "--help"}
        assert {word for word in words if word.startswith("--")} <= options, line
    for target in re.findall(r"`(?:[A-Z_]+=\S+ )*make (?:[A-Z_]+=\S+ )*([a-z-]+)", text):
        assert target in targets(), f"`make {target}` of {name(path)}"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = set(project["optional-dependencies"])
    for given in re.findall(r"bayesnn_ppl\[([a-z,]+)\]", text):
        assert set(given.split(",")) <= extras, f"bayesnn_ppl[{given}] of {name(path)}"
