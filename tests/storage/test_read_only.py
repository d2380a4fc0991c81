"""A place that cannot be written to: refused early, survived in mid-run, read without a trace.

Tests run as root in many places, for whom permissions do not count. Here Python itself is asked, by
an audit hook, to refuse every write below a folder as a read-only file system does.
"""

import errno
import fcntl
import json
import os
import shutil
import sys
from contextlib import contextmanager

import numpy as np
import pytest
from numpyro.infer import HMC

import bayesnn_ppl as bnn
from bayesnn_ppl import storage
from bayesnn_ppl.cli import main
from bayesnn_ppl.storage import RunFolder

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = "os.mkdir os.rename os.remove os.rmdir os.truncate os.utime os.chmod os.link os.symlink"
SHORT = {"warmup": 20, "draws": 20, "chains": 2, "progress": False}


class Place:
    """A folder that is read-only from the n-th attempt to write on.

    Attributes:
        attempts: what was tried, and where.
    """

    def __init__(self, path, writes):
        self.path, self._left, self.attempts = os.path.realpath(path), writes, []

    def allow(self, writes):
        """So many more attempts succeed."""
        self._left = writes

    def see(self, event, arguments):
        paths = [os.fsdecode(a) for a in arguments[:2] if isinstance(a, str | bytes | os.PathLike)]
        inside = [path for path in paths if os.path.realpath(path).startswith(self.path)]
        if inside:
            self.attempts.append((event, inside[0]))
            self._left -= 1
            if self._left < 0:
                raise OSError(errno.EROFS, os.strerror(errno.EROFS), inside[0])


PLACES, LOCKS = [], []


def watch(event, arguments):
    if not PLACES:
        return
    if event == "fcntl.flock":
        LOCKS.append(arguments)
    elif event in CHANGES.split() or (event == "open" and arguments[2] & WRITES):
        for place in PLACES:
            place.see(event, arguments)


sys.addaudithook(watch)


@contextmanager
def read_only(path, *, writes=0):
    """Refuse to write below `path`, after that many attempts that succeed."""
    place = Place(path, writes)
    PLACES.append(place)
    LOCKS.clear()
    try:
        yield place
    finally:
        PLACES.remove(place)


def kernel():
    return HMC(bnn.models.linear(), num_steps=3, trajectory_length=None)


def one_sentence_with(error, *parts):
    said = str(error.value)
    assert "Errno" not in said and "\n" not in said
    for part in parts:
        assert part in said, f"{part!r} is not in: {said}"


@pytest.mark.parametrize("exists", [True, False])
def test_a_run_is_refused_before_anything_is_compiled(tmp_path, regression, compilations, exists):
    path = tmp_path / "run"
    if exists:
        path.mkdir()
    with read_only(tmp_path), pytest.raises(OSError):
        bnn.sample(kernel(), *regression, out=path, **SHORT)
    # Another warm-up is another program; what the checks of the data compile is there already.
    before = compilations()
    with read_only(tmp_path), pytest.raises(OSError) as error:
        bnn.sample(kernel(), *regression, out=path, **(SHORT | {"warmup": 21 + exists}))
    assert compilations() == before
    assert error.value.errno == errno.EROFS
    one_sentence_with(error, f"`{path}`", "cannot be written to", "Read-only file system", "out")
    assert not path.exists() or not list(path.iterdir())


@pytest.fixture(scope="module")
def finished(tmp_path_factory, regression):
    """A run that is complete, and one that was ended early and left a journal."""
    root = tmp_path_factory.mktemp("runs")
    bnn.sample(kernel(), *regression, out=root / "complete", **SHORT)
    ended = bnn.sample(
        kernel(),
        *regression,
        out=root / "ended",
        callback=lambda progress: progress.phase == "sample",
        **(SHORT | {"draws": 2000}),
    )
    assert ended.provenance["draws"] < 2000 and list((root / "ended" / "journal").iterdir())
    return root


@pytest.mark.parametrize("which", ["complete", "ended"])
def test_reading_writes_nothing_and_keeps_no_lock(finished, regression, which, capsys):
    path = finished / which
    before = {file: file.stat().st_mtime_ns for file in path.rglob("*")}
    with read_only(finished) as place:
        posterior = bnn.load(path, model=bnn.models.linear())
        draws = {name: np.array(array) for name, array in posterior.draws.items()}
        prediction = posterior.predict(regression[0][:5])
        assert np.isfinite(np.asarray(prediction.mean)).all()
        posterior.diagnose(regression[0])
        assert storage.check(path) == []
        assert main(["check", str(path)]) == 0
        assert main(["runs", str(finished)]) == 0
    said = capsys.readouterr()
    assert "is whole" in said.out and str(path) in said.out and said.err == ""
    assert place.attempts == []
    # `runs` looks whether the run that is not complete is being written to.
    assert {operation for _, operation in LOCKS} == {fcntl.LOCK_SH | fcntl.LOCK_NB}
    LOCKS.clear()
    assert {file: file.stat().st_mtime_ns for file in path.rglob("*")} == before
    assert all(array.size for array in draws.values())


def test_a_reader_does_not_wait_for_a_writer(finished, tmp_path):
    """Readers take no lock, so that one held by a writer does not keep them out."""
    path = shutil.copytree(finished / "ended", tmp_path / "run")
    writer = RunFolder.reopen(path)
    with read_only(tmp_path) as place:
        assert storage.check(path) == [] and storage.read(path)["posterior"].sizes["chain"] == 2
    assert place.attempts == []
    writer.release()


@pytest.mark.parametrize("what", ["resume", "extend", "repair", "save"])
def test_what_must_write_says_so(finished, regression, tmp_path, what):
    path = shutil.copytree(finished / "ended", tmp_path / "run")
    if what == "repair":
        next((path / "journal").iterdir()).unlink()
        # There is nothing whole in the store yet: a draw that is must be there to be kept.
        path = _with_a_whole_chunk(tmp_path / "other")
    target = tmp_path / "copy" if what == "save" else path
    actions = {
        "resume": lambda: bnn.resume(path, kernel(), *regression, progress=False),
        "extend": lambda: bnn.extend(path, kernel(), *regression, draws=5, progress=False),
        "repair": lambda: storage.repair(path),
        "save": lambda: bnn.load(path, model=bnn.models.linear()).save(target),
    }
    with read_only(tmp_path), pytest.raises(OSError) as error:
        actions[what]()
    one_sentence_with(error, f"`{target}`", "cannot be written to", "Read-only file system")


def rows(begin, end):
    """Draws that their numbers determine."""
    numbers = np.arange(begin, end, dtype=np.float64)
    draws = np.stack([numbers, -numbers])[..., None] * np.ones(3)
    return {"posterior": {"w": draws}, "sample_stats": {"n": np.stack([numbers, numbers])}}


def write_blocks(run, ends, begin=0):
    for end in ends:
        run.append(rows(begin, end))
        run.commit({"state": np.array([end])}, phase="sample", done=end)
        begin = end


def _with_a_whole_chunk(path):
    run = RunFolder.create(path, {"kernel": "none", "site_names": {"w": "w"}})
    write_blocks(run, [4, 9])
    run.commit(None, phase="sample", done=9, complete=True)
    run.append(rows(9, 12))
    run.commit({"state": np.array([12])}, phase="sample", done=12)
    run.release()
    next((path / "journal").iterdir()).unlink()
    assert storage.check(path)
    return path


@pytest.mark.parametrize("writes", [0, 1, 2, 3, 4, 6, 8, 10, 12, 15, 20, 30])
def test_a_folder_that_becomes_read_only_keeps_what_is_committed(tmp_path, writes):
    """At each write of a commit, journal or whole chunks alike; then it is writable again."""
    path = tmp_path / "run"
    run = RunFolder.create(path, {"kernel": "none", "site_names": {"w": "w"}})
    write_blocks(run, [5])
    with read_only(path, writes=writes), pytest.raises(OSError) as error:
        write_blocks(run, [9], 5)
        run.append(rows(9, 14))
        run.commit({"state": np.array([14])}, phase="sample", done=14, complete=True)
        write_blocks(run, range(15, 40), 14)
    run.release()
    kept = json.loads((path / "commit.json").read_text())["draws"]
    assert error.value.errno == errno.EROFS and kept >= 5
    one_sentence_with(
        error, f"`{path}`", "cannot be written to", "Read-only file system", f"{kept} draws"
    )
    with read_only(path):
        found = storage.read(path)["posterior"]["w"].values
    np.testing.assert_array_equal(found, rows(0, kept)["posterior"]["w"])
    again = RunFolder.reopen(path)
    write_blocks(again, [kept + 3], kept)
    again.release()
    found = storage.read(path)["posterior"]["w"].values
    np.testing.assert_array_equal(found, rows(0, kept + 3)["posterior"]["w"])


def test_a_run_whose_folder_becomes_read_only_is_resumed_bit_for_bit(
    tmp_path, regression, finished
):
    path, done = tmp_path / "run", []

    def turn(progress):
        """The folder is read-only from the end of the second block of draws on."""
        done.append(progress.done) if progress.phase == "sample" else None
        if len(done) == 2:
            place.allow(0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bayesnn_ppl.inference.runtime.draw_writers._COMMIT_SECONDS", 0.0)
        with read_only(path, writes=10**6) as place, pytest.raises(OSError) as error:
            bnn.sample(kernel(), *regression, out=path, callback=turn, **(SHORT | {"draws": 3000}))
    kept = json.loads((path / "commit.json").read_text())["draws"]
    assert kept == done[-1] and len(done) == 2 and kept < 3000
    one_sentence_with(error, f"`{path}`", f"{kept} draws", "resume")
    partial = bnn.load(path, model=bnn.models.linear())
    cut = {name: np.array(array) for name, array in partial.draws.items()}
    whole = bnn.resume(path, kernel(), *regression, progress=False)
    straight = bnn.sample(kernel(), *regression, **(SHORT | {"draws": 3000}))
    for name, array in straight.draws.items():
        np.testing.assert_array_equal(np.asarray(whole.draws[name]), np.asarray(array))
        np.testing.assert_array_equal(cut[name], np.asarray(array)[:, :kept])
