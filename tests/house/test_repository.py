"""What is in the repository: pins without addresses, no trace of one machine, complete layers."""

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9.!+]+")

# Written in pieces, so that this file does not hold what it looks for.
HOSTS = ["pypi" + ".org", "python" + "hosted.org", "ana" + "conda.org", "index" + "-url"]
FOLDERS = ["/wo" + "rk/", "/ro" + "ot/", "/ho" + r"me/\w", "/Us" + r"ers/\w"]
FORBIDDEN = re.compile(
    "|".join(map(re.escape, HOSTS)) + r"|(?<![\w.}])(?:" + "|".join(FOLDERS) + ")"
)


def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def files():
    """All files that are tracked, or would be."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listing = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("This is not a git checkout, so there is no list of tracked files.")
    paths = [ROOT / name.decode() for name in listing.split(b"\0") if name]
    return [path for path in paths if path.is_file()]


def layers():
    contracts = project()["tool"]["importlinter"]["contracts"]
    (contract,) = [one for one in contracts if one.get("containers") == ["bayesnn_ppl"]]
    return [re.findall(r"\w+", layer) for layer in contract["layers"]]


def test_the_layers_of_the_architecture_are_those_of_the_contract():
    text = (ROOT / "docs" / "architecture.md").read_text()
    block = re.search(r"Imports go downward only;.*?```\w*\n(.*?)```", text, re.DOTALL)[1]
    assert [re.findall(r"\w+", line) for line in block.splitlines()] == layers()


def test_constraints_are_names_and_versions_only():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert [line for line in lines if not PIN.fullmatch(line)] == []
    names = [re.sub(r"[-_.]+", "-", line.split("==")[0]).lower() for line in lines]
    assert len(names) == len(set(names))


def test_every_dependency_is_pinned():
    table = project()["project"]
    # An accelerator's wheels are chosen by the machine that needs them.
    extras = [names for extra, names in table["optional-dependencies"].items() if extra != "cuda"]
    pins = (ROOT / "constraints.txt").read_text()
    pinned = {re.sub(r"[-_.]+", "-", line.split("==")[0]).lower() for line in pins.splitlines()}
    for requirement in [*table["dependencies"], *sum(extras, [])]:
        name = re.sub(r"[-_.]+", "-", re.match(r"[\w.-]+", requirement)[0]).lower()
        assert name in pinned | {"bayesnn-ppl"}, f"{name} has no line in constraints.txt."


def test_no_file_names_a_registry_or_a_machine():
    for path in files():
        found = FORBIDDEN.search(path.read_text(errors="ignore"))
        assert not found, f"{path} holds {found[0]!r}, which is true of one machine only."


def test_no_merge_is_left_half_done():
    marker = re.compile(r"^(<{7}|>{7}) ", re.MULTILINE)
    assert [str(path) for path in files() if marker.search(path.read_text(errors="ignore"))] == []


def test_every_folder_of_modules_is_a_package():
    """The wheel holds the packages that setuptools finds, and would lack any other folder."""
    modules = [*(ROOT / "bayesnn_ppl").rglob("*.py"), *(ROOT / "models").rglob("*.py")]
    folders = {path.parent for path in modules}
    assert [str(folder) for folder in folders if not (folder / "__init__.py").exists()] == []


def test_every_module_has_its_layer():
    listed = [name for layer in layers() for name in layer]
    assert len(listed) == len(set(listed))
    there = {
        path.stem
        for path in (ROOT / "bayesnn_ppl").iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert there - {"__init__", "__main__"} <= set(listed)


def test_the_version_is_the_same_everywhere():
    import bayesnn_ppl

    version = project()["project"]["version"]
    assert bayesnn_ppl.__version__ == version
    assert f"## [{version}]" in (ROOT / "CHANGELOG.md").read_text()


def test_the_script_of_continuous_integration_can_be_run():
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


def test_paths_that_pages_name_are_there():
    pages = [page for page in files() if page.suffix == ".md"]
    named = re.compile(r"`((?:bayesnn_ppl|benchmarks|tests)/[\w/.-]*)`")
    missing = {
        f"{page.relative_to(ROOT)}: {path}"
        for page in pages
        for path in named.findall(page.read_text())
        if not (ROOT / path).exists()
    }
    assert len(pages) > 50 and not missing
