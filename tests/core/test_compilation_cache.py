"""Compiled programs kept between commands: where, how many, and that they change no draw."""

import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from bayesnn_ppl import load
from bayesnn_ppl.core import compilation_cache
from bayesnn_ppl.core.compilation_cache import is_about_an_entry, keep_compiled_programs

CHOSEN = "JAX_COMPILATION_CACHE_DIR"
READING = "Error reading persistent compilation cache entry for 'jit_advance': error: no header"


@pytest.fixture
def environment(tmp_path, monkeypatch):
    """That of a command that starts: JAX is not imported, and nothing is chosen."""
    monkeypatch.delitem(sys.modules, "jax")
    monkeypatch.setattr(os, "environ", {"XDG_CACHE_HOME": str(tmp_path / "caches")})
    return os.environ


def test_the_folder_is_the_users_own_cache(environment, tmp_path):
    folder = keep_compiled_programs()
    assert folder.parent == tmp_path / "caches" / "bayesnn_ppl"
    assert folder.stat().st_mode & 0o777 == 0o700, "what is written there is run"
    assert environment[CHOSEN] == str(folder)


def test_without_a_cache_home_it_is_in_the_home(environment, tmp_path):
    del environment["XDG_CACHE_HOME"]
    environment["HOME"] = str(tmp_path)
    assert keep_compiled_programs().is_relative_to(tmp_path / ".cache")


def test_a_folder_that_the_caller_chose_stays(environment):
    environment[CHOSEN] = "mine"
    assert keep_compiled_programs() is None and environment[CHOSEN] == "mine"


def test_jax_is_told_where_it_has_been_imported_already(environment, monkeypatch):
    """As by a command whose options were read from a kernel's class."""
    told = {}
    config = SimpleNamespace(update=told.__setitem__)
    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(config=config))
    assert told == {} and str(keep_compiled_programs()) == told["jax_compilation_cache_dir"]
    assert told["jax_persistent_cache_min_compile_time_secs"] > 0


def test_a_folder_that_cannot_be_written_costs_the_cache_alone(environment, tmp_path, monkeypatch):
    (tmp_path / "caches").write_text("a file")
    assert keep_compiled_programs() is None and CHOSEN not in environment
    (tmp_path / "caches").unlink()
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert keep_compiled_programs() is None and CHOSEN not in environment


def test_the_entries_used_longest_ago_make_room(environment, monkeypatch):
    monkeypatch.setattr(compilation_cache, "_MOST_BYTES", 100)
    folder = keep_compiled_programs()
    for age, name in enumerate(["new", "middle", "old", "oldest"]):
        (folder / name).write_bytes(bytes(26))
        os.utime(folder / name, (1e9 - age, 1e9 - age))
    del environment[CHOSEN]
    keep_compiled_programs()
    assert {path.name for path in folder.iterdir()} == {"new"}
    (folder / "more").write_bytes(bytes(74))
    del environment[CHOSEN]
    keep_compiled_programs()
    assert {path.name for path in folder.iterdir()} == {"new", "more"}, "they fit"


def test_a_damaged_entry_is_removed_and_no_other(environment, tmp_path):
    folder = keep_compiled_programs()
    for name in ("jit_advance-1-cache", "jit_advance_more-1-cache", "jit_start-1-cache"):
        (folder / name).touch()
    assert is_about_an_entry(READING)
    left = {path.name for path in folder.iterdir()}
    assert left == {"jit_advance_more-1-cache", "jit_start-1-cache"}
    assert not is_about_an_entry("a warning of another kind")
    (tmp_path / "jit_advance-1-cache").touch()
    environment[CHOSEN] = str(tmp_path)
    assert is_about_an_entry(READING) and (tmp_path / "jit_advance-1-cache").exists()


@pytest.mark.parametrize("kernel", [True, False])
def test_a_notebook_has_it_by_itself_and_a_script_has_not(tmp_path, kernel):
    notebook = "sys.modules['ipykernel'] = types.ModuleType('ipykernel'); " if kernel else ""
    code = f"import os, sys, types; {notebook}import bayesnn_ppl; print(os.environ.get('{CHOSEN}'))"
    environment = {k: v for k, v in os.environ.items() if k != CHOSEN}
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env=environment | {"XDG_CACHE_HOME": str(tmp_path)},
    ).stdout.strip()  # fmt: skip
    assert (found.startswith(str(tmp_path))) is kernel
    assert kernel or found == "None"


@pytest.mark.skipif(
    os.environ.get("BAYESNN_SLOW_TESTS", "") in ("", "0"), reason="starts four commands"
)
def test_draws_are_the_same_with_and_without(tmp_path):
    """Two commands at once, one that meets a damaged entry, and one without the cache."""
    caches = tmp_path / "caches"
    own = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")}
    line = "sample linear --data diabetes --warmup 3 --draws 4 --chains 1 --quiet --no-diagnose"

    def start(name, *more, **environment):
        command = [sys.executable, "-m", "bayesnn_ppl.cli", *line.split(), "--out", name, *more]
        return subprocess.Popen(
            command, cwd=tmp_path, env=own | environment, stderr=subprocess.PIPE, text=True
        )

    def ended(*started):
        for process in started:
            assert process.communicate()[1] == "" and process.returncode == 0

    # However fast this machine compiles, each program is worth a file here.
    shared = {"XDG_CACHE_HOME": str(caches), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    ended(start("one", **shared), start("two", **shared))
    (entry,) = caches.glob("*/*/jit_advance-*")
    whole = entry.stat().st_size
    entry.write_bytes(entry.read_bytes()[: whole // 2])
    other = tmp_path / "other"
    ended(
        start("damaged", **shared),
        start("without", "--no-compilation-cache", XDG_CACHE_HOME=str(other)),
    )
    assert entry.stat().st_size > whole // 2, "it has been rewritten"
    assert not other.exists()
    first, *others = [load(tmp_path / n).draws for n in ("one", "two", "damaged", "without")]
    for draws in others:
        for name, values in first.items():
            np.testing.assert_array_equal(draws[name], values)
