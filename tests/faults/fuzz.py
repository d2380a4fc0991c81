"""Hostile files for everything that reads: `python -m tests.faults.fuzz --examples 10000`.

Hypothesis makes files and damages whole ones. Reading may end in two ways only: with a result, or
with an error of a kind that the library announces and a sentence in it. In a few seconds, without
unpickling, starting a process, connecting, or writing outside the scratch folder; an audit hook of
the interpreter watches.
"""

import argparse
import io
import json
import os
import platform
import shutil
import sys
import tempfile
import time
import zipfile
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import hypothesis
import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import bayesnn_ppl as bnn
from bayesnn_ppl import storage
from bayesnn_ppl.experiments import load_recipe
from bayesnn_ppl.storage import RunFolder, zarr_store

_ANNOUNCED = (ValueError, OSError, ImportError)
_MOST_SECONDS = 20.0
_FORBIDDEN = {"pickle.find_class", "subprocess.Popen", "socket.connect", "ctypes.dlopen"}
_FORBIDDEN |= {"os.system", "os.exec", "os.posix_spawn", "os.fork"}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
WATCHED: list[tuple[str, Path]] = []  # what was done, while a reader is watched


class Crash(AssertionError):
    """A reader that ended in a way that is not announced."""


_watching: list[Path] = []


def _hook(event, arguments):
    if not _watching:
        return
    if event in _FORBIDDEN:
        WATCHED.append((event, arguments))
    elif event == "open" and arguments[2] & _WRITING and isinstance(arguments[0], str | bytes):
        path = os.path.realpath(os.fsdecode(arguments[0]))
        if not path.startswith(str(_watching[0])) and path != os.devnull:
            WATCHED.append(("open for writing", path))


sys.addaudithook(_hook)


@contextmanager
def scratch():
    """A folder that is removed again."""
    place = Path(os.path.realpath(tempfile.mkdtemp(prefix="bayesnn-fuzz-")))
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def read_safely(reader, place):
    """Call a reader of what is in `place`; "read" or "refused", and Crash for all else."""
    WATCHED.clear()
    _watching.append(place)
    began = time.monotonic()
    try:
        reader()
        ended = "read"
    except _ANNOUNCED as error:
        sentence = str(error)
        if len(sentence) < 15 or " " not in sentence:
            raise Crash(f"no sentence: {type(error).__name__}: {sentence!r}") from error
        ended = "refused"
    except BaseException as error:
        raise Crash(f"{type(error).__name__}: {error}") from error
    finally:
        _watching.pop()
    if time.monotonic() - began > _MOST_SECONDS:
        raise Crash(f"it took {time.monotonic() - began:.0f} s")
    if WATCHED:
        raise Crash(f"it did {WATCHED[:3]}")
    return ended


def whole_run():
    """The files of a small run that is sound: path -> content."""
    before, zarr_store._MOST_CHUNK_DRAWS = zarr_store._MOST_CHUNK_DRAWS, 8
    try:
        with scratch() as place:
            config = {"kernel": "none", "site_names": {"w": "w"}, "chains": 2}
            config["draws_requested"] = 20
            probe = {"x": np.ones((3, 2), np.float32)}
            run = RunFolder.create(place / "run", config, probe=probe)
            generator = np.random.default_rng(0)
            for size in (10, 5, 5):
                block = {
                    "posterior": {"w": generator.normal(size=(2, size, 3)).astype(np.float32)},
                    "sample_stats": {"lp": generator.normal(size=(2, size))},
                }
                run.append(block)
                done = run.commit_record["draws"] + size
                run.commit({"z": np.arange(2.0)}, phase="sample", done=done)
            run.release()
            files = {}
            for file in sorted((place / "run").rglob("*")):
                if file.is_file():
                    files[str(file.relative_to(place / "run"))] = file.read_bytes()
            return files
    finally:
        zarr_store._MOST_CHUNK_DRAWS = before


_PATHS = [
    "../../../../etc/passwd",
    "/etc/passwd",
    "journal/../../secret.npz",
    "checkpoint/..\\x.npz",
]
_NUMBERS = [-1, 0, 2**40, 2**70, 1e308, None, True, [], {}, [2**40, 2**40]]
_NASTY = st.sampled_from([*_PATHS, *_NUMBERS, "object", "|O8", "numcodecs.pickle", "\x00"])
_JSON = st.recursive(
    st.one_of(_NASTY, st.integers(), st.floats(), st.text(max_size=8)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)


def _places(value, way=()):
    """Every place of a JSON value, as the way to it."""
    yield way
    inner = value.items() if isinstance(value, dict) else ()
    inner = enumerate(value) if isinstance(value, list) else inner
    for key, item in inner:
        yield from _places(item, (*way, key))


def _replaced(value, way, new):
    if not way:
        return new
    copy = value.copy()
    copy[way[0]] = _replaced(value[way[0]], way[1:], new)
    return copy


@st.composite
def damaged(draw, content):
    """Bytes that were `content`, cut, changed, or lengthened."""
    how = draw(st.sampled_from(["flip", "cut", "more", "other"]))
    if how == "other" or not content:
        return draw(st.binary(max_size=64))
    place = draw(st.integers(0, len(content) - 1))
    if how == "cut":
        return content[:place]
    if how == "more":
        return content[:place] + draw(st.binary(min_size=1, max_size=16)) + content[place:]
    changed = bytearray(content)
    changed[place] ^= 1 << draw(st.integers(0, 7))
    return bytes(changed)


@st.composite
def damaged_run(draw, files):
    """A run in which one to three files are damaged, gone, or say other things."""
    whole, files = files, dict(files)
    for name in draw(st.lists(st.sampled_from(sorted(files)), min_size=1, max_size=3, unique=True)):
        how = draw(st.sampled_from(["bytes", "json", "json", "gone"]))
        if how == "gone":
            del files[name]
        elif how == "json" and name.endswith(".json"):
            value = json.loads(whole[name])
            way = draw(st.sampled_from(list(_places(value))))
            files[name] = json.dumps(_replaced(value, way, draw(_JSON))).encode()
        else:
            files[name] = draw(damaged(files[name]))
    return files


def _lay(files, path):
    for name, content in files.items():
        file = path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)


def _read(path):
    posterior = bnn.load(path)
    for arrays in (posterior.draws, posterior.statistics):
        for array in arrays.values():
            np.asarray(array)


def _load(files):
    with scratch() as place:
        _lay(files, place / "run")
        _read(place / "run")
        assert storage.check(place / "run") == [], "the run to damage is sound"


def try_run(files):
    """`load` and `check` of a run folder with these files."""
    with scratch() as place:
        _lay(files, place / "run")
        ended = read_safely(lambda: _read(place / "run"), place)
        read_safely(lambda: storage.check(place / "run"), place)
        return ended


@st.composite
def archive(draw):
    """An NPZ file, right, damaged, or one that lies about its arrays."""
    how = draw(st.sampled_from(["right", "damaged", "object", "lie", "bomb"]))
    buffer = io.BytesIO()
    rows = draw(st.integers(5, 30))
    x = np.random.default_rng(rows).normal(size=(rows, 2))
    kind = draw(st.sampled_from(["f8", "f4", "i8", "u1", "c8", "U3", "?", "M8[s]", "V4"]))
    y = np.arange(draw(st.sampled_from([rows, rows, 1, rows + 1])))
    y = y.astype("U3") if kind == "U3" else y.astype("i8").view(kind) if kind == "M8[s]" else y
    y = np.zeros(rows, kind) if kind == "V4" else y if kind == "M8[s]" else y.astype(kind)
    if how == "object":
        y = np.array([{"a": 1}] * rows, object)
    np.savez(buffer, **{draw(st.sampled_from(["x", "X", "x_train", "../x"])): x, "y": y})
    content = buffer.getvalue()
    if how == "damaged":
        return draw(damaged(content))
    if how in ("lie", "bomb"):
        shape = draw(st.sampled_from(["(2, 10**12)", "(-1,)", "(10**18,)", "(3,", "()" * 200]))
        header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".encode()
        header = header.ljust(118) + b"\n"
        body = bytes(2**20) if how == "bomb" else b""
        npy = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + body
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as out:
            out.writestr("x.npy", npy)
            out.writestr("y.npy", npy)
        return buffer.getvalue()
    return content


def try_archive(content):
    with scratch() as place:
        file = place / "data.npz"
        file.write_bytes(content)
        return read_safely(lambda: bnn.data.load(str(file)), place)


_CELL = st.one_of(
    st.sampled_from(
        ["1", "2.5", "", "NA", "inf", "-1e400", "a", '"', "=cmd()", "\x00", "ü", "1,2"]
    ),
    st.floats().map(str),
    st.text(max_size=6),
)


@st.composite
def table(draw):
    """A CSV file, more or less."""
    if draw(st.integers(0, 3)) == 0:  # a sound one, but for its numbers
        number = st.floats(-1e6, 1e6) if draw(st.booleans()) else st.floats()
        rows = draw(st.lists(st.tuples(number, number), min_size=10, max_size=14))
        return "\n".join(["a,y", *(f"{a},{y}" for a, y in rows)]).encode()
    width = draw(st.integers(0, 4))
    header = draw(st.lists(st.one_of(st.sampled_from("abcy"), _CELL), max_size=width))
    rows = draw(st.lists(st.lists(_CELL, min_size=0, max_size=width + 1), max_size=14))
    text = "\n".join(draw(st.sampled_from([",", ";", "\t"])).join(row) for row in [header, *rows])
    content = text.encode(draw(st.sampled_from(["utf-8", "utf-16"])), "surrogatepass")
    return draw(damaged(content)) if draw(st.booleans()) else content


def try_table(content):
    with scratch() as place:
        file = place / "data.csv"
        file.write_bytes(content)
        return read_safely(lambda: bnn.data.load(str(file), target="y"), place)


_RECIPE = """title = "A recipe"
source = "of nobody"
command = "sample"
[settings]
kernel = "nuts"
hidden = [5, 5]
[tiny]
note = "one"
[cpu]
note = "two"
[full]
note = "three"
[[published]]
metric = "rmse"
value = 0.5
source = "nobody"
"""


@st.composite
def recipe(draw):
    """A recipe, damaged, or with lines that mean other things."""
    lines = _RECIPE.splitlines()
    for _ in range(draw(st.integers(0, 2))):
        number = draw(st.integers(0, len(lines) - 1))
        key = lines[number].split("=")[0]
        value = draw(
            st.one_of(
                _JSON.map(lambda v: json.dumps(v, default=str)),
                st.sampled_from(["[" * 300, "{}", "2020-01-01", "'''", "1e999", "nan"]),
                st.text(max_size=10),
            )
        )
        extends = f'extends = "{draw(st.sampled_from(["recipe.toml", "../x.toml", "hmc-imdb"]))}"'
        lines[number] = draw(st.sampled_from([f"{key} = {value}", value, "", extends]))
    content = "\n".join(lines).encode("utf-8", "surrogatepass")
    return draw(damaged(content)) if draw(st.booleans()) else content


def try_recipe(content):
    with scratch() as place:
        file = place / "recipe.toml"
        file.write_bytes(content)
        return read_safely(lambda: load_recipe(str(file)), place)


def targets():
    """Name -> (strategy, what is tried, share of the examples)."""
    files = whole_run()
    # Once unwatched: what libraries import when they are first used may unpickle their own parts.
    _load(files)
    return {
        "run": (damaged_run(files), try_run, 0.1),
        "npz": (archive(), try_archive, 0.3),
        "csv": (table(), try_table, 0.35),
        "recipe": (recipe(), try_recipe, 0.25),
    }


def _try(strategy, trial, examples, seed, ends):
    """So many examples of a strategy, counting how they end; returns the first crash."""
    crashes = []

    @hypothesis.seed(seed)
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def attempt(example):
        try:
            ends[trial(example)] += 1
        except Crash as error:  # counted, so that one does not hide the others
            ends["crashed"] += 1
            crashes.append(str(error)[:500])

    attempt()
    return sorted(set(crashes))[:20]


def fuzz(examples, seed=0):
    """Try so many examples; returns the record, with the first crash of each target."""
    record = {
        "command": f"python -m tests.faults.fuzz --examples {examples} --seed {seed}",
        "python": platform.python_version(),
        "hypothesis": hypothesis.__version__,
        "targets": {},
    }
    for name, (strategy, trial, share) in targets().items():
        ends, began = Counter(), time.monotonic()

        crashes = _try(strategy, trial, max(1, round(examples * share)), seed, ends)
        record["targets"][name] = {
            "examples": sum(ends.values()),
            **ends,
            "crashes": crashes,
            "seconds": round(time.monotonic() - began, 1),
        }
    record["examples"] = sum(t["examples"] for t in record["targets"].values())
    record["crashes"] = sum(t.get("crashed", 0) for t in record["targets"].values())
    return record


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--examples", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    record = fuzz(arguments.examples, arguments.seed)
    text = json.dumps(record, indent=1)
    if arguments.out is not None:
        arguments.out.write_text(text + "\n")
    print(text)
    return 1 if record["crashes"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
