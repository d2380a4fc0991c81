"""The Makefile finds a Python that runs, or says which one is missing; no network, no install."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAKE = shutil.which("make")
PYTEST = "python -m pytest -q -n 2 --dist loadfile -m not notebook and not built_docs"
pytestmark = pytest.mark.skipif(MAKE is None, reason="There is no make on this machine.")


def make(folder, *arguments, path=""):
    """Run make in `folder` with nothing of this process's environment."""
    (folder / "home").mkdir(exist_ok=True)
    return subprocess.run(
        [MAKE, "-f", str(ROOT / "Makefile"), *arguments],
        cwd=folder,
        env={"PATH": str(path), "HOME": str(folder / "home")},
        capture_output=True,
        text=True,
        timeout=60,
    )


def script(path, body):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def installed(tmp_path):
    """A folder that looks installed, whose tools say how they were called."""
    for name in ("pyproject.toml", "setup.py", "constraints.txt", ".python-version"):
        (tmp_path / name).write_text("3.13\n")
    for tool in ("ruff", "mypy", "lint-imports", "bayesnn", "python"):
        script(tmp_path / ".venv" / "bin" / tool, f'echo "{tool} $* DATA=${{BAYESNN_DATA-}}"')
    (tmp_path / ".venv" / ".installed").write_text("3.13\n")
    return tmp_path


def sentences(result):
    """What was said, without make's own line on the failed target."""
    return [line for line in result.stderr.splitlines() if not line.startswith("make")]


def test_without_any_python_one_sentence_says_what_to_do(tmp_path):
    result = make(tmp_path, "check-python", path=tmp_path)
    assert result.returncode != 0
    (sentence,) = sentences(result)
    assert "needs Python 3.12, 3.13 or 3.14" in sentence
    assert "make PYTHON=/path/to/python demo" in sentence


@pytest.mark.parametrize(
    "target", ["setup", "demo", "test", "notebooks", "notebooks-store", "docs"]
)
def test_every_target_stops_there(tmp_path, target):
    for name in ("pyproject.toml", "setup.py", "constraints.txt", ".python-version"):
        (tmp_path / name).write_text("3.13\n")
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in ("cat", "rm"):
        (tools / tool).symlink_to(shutil.which(tool))
    result = make(tmp_path, target, path=tools)
    assert result.returncode != 0
    (sentence,) = sentences(result)
    assert "needs Python 3.12" in sentence
    assert not (tmp_path / ".venv").exists()


def test_a_shim_that_does_not_run_is_passed_over(tmp_path):
    script(tmp_path / "shims" / "python3.13", "echo 'command not found' >&2; exit 127")
    script(tmp_path / "shims" / "python3", "exit 1")
    good = script(tmp_path / "later" / "python3", "exit 0")
    result = make(tmp_path, "check-python", path=f"{tmp_path / 'shims'}:{good.parent}")
    assert (result.returncode, result.stdout, result.stderr) == (0, f"{good}\n", "")


def test_the_version_that_was_tested_is_preferred(tmp_path):
    for name in ("python", "python3", "python3.12", "python3.14", "python3.13"):
        script(tmp_path / name, "exit 0")
    result = make(tmp_path, "check-python", path=tmp_path)
    assert result.stdout == f"{tmp_path / 'python3.13'}\n"


def test_an_interpreter_that_is_named_is_the_only_one_tried(tmp_path):
    script(tmp_path / "python3.13", "exit 0")
    mine = script(tmp_path / "my python", "exit 0")
    assert make(tmp_path, "check-python", f"PYTHON={mine}", path=tmp_path).stdout == f"{mine}\n"
    refused = make(tmp_path, "check-python", "PYTHON=/nowhere/python", path=tmp_path)
    assert refused.returncode != 0
    assert "/nowhere/python is not one" in sentences(refused)[0]


def test_data_reach_pytest_as_an_absolute_path(installed):
    (installed / "my data").mkdir()
    result = make(installed, "test", "BAYESNN_DATA=my data")
    assert result.returncode == 0, result.stderr
    ran = result.stdout.splitlines()
    assert [line.split()[0] for line in ran] == ["ruff", "ruff", "mypy", "lint-imports", "python"]
    assert ran[-1] == f"{PYTEST} DATA={installed / 'my data'}"


def test_without_data_it_is_said_that_tests_are_skipped(installed):
    result = make(installed, "test")
    assert result.returncode == 0, result.stderr
    assert "BAYESNN_DATA is not set" in result.stdout
    assert result.stdout.endswith(f"{PYTEST} DATA=\n")


def test_data_that_are_not_there_are_an_error(installed):
    result = make(installed, "test", "BAYESNN_DATA=nowhere")
    assert result.returncode != 0
    assert "BAYESNN_DATA is nowhere, which is not a folder." in result.stderr


def test_the_demo_is_the_command_of_the_environment(installed):
    assert make(installed, "demo").stdout == "bayesnn demo DATA=\n"


def test_notebooks_are_run_by_pytest_and_stored_by_their_own_command(installed):
    assert make(installed, "notebooks").stdout == "python -m pytest -q -n 2 tests/notebooks DATA=\n"
    stored = make(installed, "notebooks-store", "NOTEBOOKS=03 04").stdout
    assert stored == "python -m tests.notebooks.store 03 04 DATA=\n"


def test_help_names_every_target(tmp_path):
    named = {line.split()[1] for line in make(tmp_path, "help").stdout.splitlines()}
    targets = "help setup demo test notebooks notebooks-store lint docs bench clean"
    assert named == set(targets.split())
