"""The Makefile finds a Python that runs, or says which one is missing; no network, no install."""

import shutil
import subprocess
from pathlib import Path

import pytest

MAKEFILE = Path(__file__).parents[2] / "Makefile"
MAKE = shutil.which("make")
pytestmark = pytest.mark.skipif(MAKE is None, reason="There is no make on this machine.")


def make(folder, *arguments, path=""):
    """Run make in `folder` with nothing of this process's environment."""
    return subprocess.run(
        [MAKE, "-f", str(MAKEFILE), *arguments],
        cwd=folder,
        env={"PATH": str(path), "HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=60,
    )


def script(path, body):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("setting", [(), ("PYTHON=/nowhere/python",)])
def test_without_any_python_one_sentence_says_what_to_do(tmp_path, setting):
    result = make(tmp_path, "check-python", *setting, path=tmp_path)
    assert result.returncode != 0
    assert "needs Python 3.12, 3.13 or 3.14" in result.stderr.splitlines()[0]
    assert "make PYTHON=/path/to/python demo" in result.stderr


def test_a_shim_that_does_not_run_is_passed_over(tmp_path):
    script(tmp_path / "shims" / "python3.13", "echo 'command not found' >&2; exit 127")
    script(tmp_path / "shims" / "python3", "exit 1")
    good = script(tmp_path / "later" / "python3", "exit 0")
    result = make(tmp_path, "check-python", path=f"{tmp_path / 'shims'}:{good.parent}")
    assert (result.returncode, result.stdout, result.stderr) == (0, f"{good}\n", "")


def test_the_version_that_was_tested_is_preferred_to_all_but_the_one_named(tmp_path):
    for name in ("python", "python3", "python3.12", "python3.14", "python3.13"):
        script(tmp_path / name, "exit 0")
    assert make(tmp_path, "check-python", path=tmp_path).stdout == f"{tmp_path / 'python3.13'}\n"
    mine = script(tmp_path / "my python", "exit 0")
    assert make(tmp_path, "check-python", f"PYTHON={mine}", path=tmp_path).stdout == f"{mine}\n"


def test_tests_run_on_the_data_folder_by_an_absolute_path(tmp_path):
    for name in ("pyproject.toml", "setup.py", "constraints.txt", ".python-version"):
        (tmp_path / name).write_text("3.13\n")
    for tool in ("ruff", "mypy", "lint-imports", "python"):
        script(tmp_path / ".venv" / "bin" / tool, 'echo "$* DATA=${BAYESNN_DATA-}"')
    (tmp_path / ".venv" / ".installed").write_text("3.13\n")
    (tmp_path / "my data").mkdir()
    for target, deselected in (("test", "not check and "), ("check", "")):
        result = make(tmp_path, target, "BAYESNN_DATA=my data")
        ran = f"-m {deselected}not notebook and not built_docs DATA={tmp_path / 'my data'}\n"
        assert result.stdout.endswith(ran), result.stderr
        assert "BAYESNN_DATA is not set" in make(tmp_path, target).stdout
        refused = make(tmp_path, target, "BAYESNN_DATA=nowhere")
        assert refused.returncode != 0
        assert "BAYESNN_DATA is nowhere, which is not a folder." in refused.stderr


def test_help_names_every_target(tmp_path):
    named = {line.split()[1] for line in make(tmp_path, "help").stdout.splitlines()}
    targets = "help setup demo test check notebooks notebooks-store lint docs bench clean"
    assert named == set(targets.split())
