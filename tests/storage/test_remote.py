"""Runs at an address: whole there after every commit, whatever fails in between."""

import json
import shutil

import fsspec
import numpy as np
import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl import storage
from bayesnn_ppl.storage import RunFolder, mirror

ADDRESS = "memory://bucket/run"
CONFIG = {"chains": 2}


@pytest.fixture(autouse=True)
def caches(tmp_path, monkeypatch):
    """Working copies of their own for each test, and an empty store."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    memory = fsspec.filesystem("memory")
    for known in list(memory.store):
        del memory.store[known]
    return tmp_path / "caches" / "bayesnn_ppl" / "runs"


def there():
    """The files at the address."""
    return {path.removeprefix("/bucket/run/") for path in fsspec.filesystem("memory").find("")}


def block(seed, draws=5):
    generator = np.random.default_rng(seed)
    return {"posterior": {"w": generator.normal(size=(2, draws, 3)).astype(np.float32)}}


def commit(folder, seed, *, complete=False):
    folder.append(block(seed))
    done = folder.commit_record["draws"] + 5
    folder.commit({"s": np.arange(3)}, phase="sample", done=done, complete=complete)


def begun():
    return RunFolder.create(storage.working_copy(ADDRESS), CONFIG)


def weights(place):
    return storage.read(storage.fetched(place))["posterior"]["w"].values


EXPECTED = np.concatenate([block(seed)["posterior"]["w"] for seed in range(3)], axis=1)


def test_every_commit_is_at_the_address_and_nothing_else(caches):
    folder = begun()
    for seed in range(3):
        commit(folder, seed, complete=seed == 2)
        record = json.loads(fsspec.filesystem("memory").cat("/bucket/run/commit.json"))
        assert record["draws"] == 5 * (seed + 1)
        named = {entry["file"] for entry in (*record["journal"], *record["checkpoint"])}
        found = there()
        assert named <= found
        assert {f for f in found if f.startswith(("journal/", "checkpoint/"))} == named
        assert "lock" not in found
        shutil.copytree(folder.path, elsewhere := caches / f"then-{seed}")
        np.testing.assert_array_equal(
            storage.read(elsewhere)["posterior"]["w"].values, EXPECTED[:, : 5 * (seed + 1)]
        )
    folder.release()


def test_a_run_is_fetched_and_resumed_elsewhere(caches, monkeypatch):
    first = begun()
    commit(first, 0)
    first.release()
    monkeypatch.setenv("XDG_CACHE_HOME", str(caches.parent / "another machine"))
    second = RunFolder.reopen(storage.fetched(ADDRESS))
    assert second.path != first.path
    commit(second, 1)
    commit(second, 2, complete=True)
    second.release()
    monkeypatch.setenv("XDG_CACHE_HOME", str(caches.parent.parent))
    np.testing.assert_array_equal(weights(ADDRESS), EXPECTED)  # the first one's copy is brought up


def test_a_working_copy_that_is_written_to_is_read_as_it_is():
    folder = begun()
    commit(folder, 0)
    fsspec.filesystem("memory").rm("/bucket/run/commit.json")  # a fetch would fail
    assert weights(ADDRESS).shape == (2, 5, 3)
    folder.release()
    with pytest.raises(FileNotFoundError, match=r"no run at memory.*working copy of one is in"):
        storage.fetched(ADDRESS)


class Unreachable:
    """A file system that fails, where `failing` says so."""

    def __init__(self):
        self.inner, self.failing = fsspec.filesystem("memory"), lambda call, path: False

    def __getattr__(self, call):
        def called(*arguments, **options):
            if self.failing(call, str(arguments[-1] if arguments else "")):
                raise TimeoutError("no answer")
            return getattr(self.inner, call)(*arguments, **options)

        return called


@pytest.fixture
def flaky(monkeypatch):
    system = Unreachable()
    monkeypatch.setattr(mirror, "file_system", lambda address: (system, "/bucket/run"))
    return system


@pytest.mark.parametrize("file", ["commit.json", "checkpoint"])
def test_an_upload_that_fails_is_told_once_and_made_up_for(flaky, file):
    folder = begun()
    commit(folder, 0)
    flaky.failing = lambda call, path: call == "put_file" and file in path
    with pytest.warns(RuntimeWarning, match=r"cannot be reached: TimeoutError.*is whole"):
        commit(folder, 1)
    commit(folder, 2)  # the suite turns a second warning into an error
    # What is there meanwhile is the last whole commit.
    record = json.loads(flaky.inner.cat("/bucket/run/commit.json"))
    assert record["draws"] == 5
    assert {entry["file"] for entry in (*record["journal"], *record["checkpoint"])} <= there()
    flaky.failing = lambda call, path: False
    folder.update_config(seen=True)
    folder.release()
    shutil.rmtree(folder.path)
    np.testing.assert_array_equal(weights(ADDRESS), EXPECTED)


def test_a_last_upload_that_fails_is_an_error_and_resuming_sends_it(flaky):
    folder = begun()
    flaky.failing = lambda call, path: call == "put_file"
    with pytest.raises(OSError, match=r"whole in its working copy.*`resume` sends it"):
        commit(folder, 0, complete=True)
    folder.release()
    np.testing.assert_array_equal(storage.read(folder.path)["posterior"]["w"], EXPECTED[:, :5])
    flaky.failing = lambda call, path: False
    again = RunFolder.reopen(storage.fetched(ADDRESS))  # what is here is newer, and stays
    again.update_config(resumed=True)
    again.release()
    shutil.rmtree(folder.path)
    np.testing.assert_array_equal(weights(ADDRESS), EXPECTED[:, :5])


def test_what_was_sent_for_no_commit_is_removed_when_a_run_is_resumed(flaky):
    folder = begun()
    commit(folder, 0)
    flaky.failing = lambda call, path: call == "put_file" and "commit.json" in path
    with pytest.warns(RuntimeWarning, match="cannot be reached"):
        commit(folder, 1)
    sent = len([name for name in there() if name.startswith("journal/")])
    folder.release()
    flaky.failing = lambda call, path: False
    again = RunFolder.reopen(storage.fetched(ADDRESS))
    left = [name for name in there() if name.startswith("journal/")]
    assert (sent, len(left)) == (2, 1)
    commit(again, 2, complete=True)  # sends what was removed, as far as it still counts
    again.release()
    shutil.rmtree(again.path)
    np.testing.assert_array_equal(weights(ADDRESS), EXPECTED)


@pytest.mark.parametrize("by", ["address", "working copy"])
def test_a_writer_killed_after_it_sent_a_commit_resumes(monkeypatch, by):
    """What it wrote down of the sending is then one commit behind."""
    folder = begun()
    commit(folder, 0)
    with monkeypatch.context() as patch:
        patch.setattr(mirror.Mirror, "_write", lambda self: None)
        commit(folder, 1)
    folder.release()
    again = RunFolder.reopen(storage.fetched(ADDRESS) if by == "address" else folder.path)
    commit(again, 2, complete=True)
    again.release()
    shutil.rmtree(folder.path)
    np.testing.assert_array_equal(weights(ADDRESS), EXPECTED)


def test_two_writers_are_noticed_and_neither_loses_a_draw(caches, monkeypatch):
    first = begun()
    commit(first, 0)
    first.release()
    monkeypatch.setenv("XDG_CACHE_HOME", str(caches.parent / "another machine"))
    second = RunFolder.reopen(storage.fetched(ADDRESS))
    commit(second, 1)
    monkeypatch.setenv("XDG_CACHE_HOME", str(caches.parent.parent))
    first = RunFolder.reopen(first.path)  # it did not look at the address
    with pytest.raises(ValueError, match="written to by another process since"):
        commit(first, 2)
    first.release()
    commit(second, 2)
    second.release()
    with pytest.raises(ValueError, match="have gone different ways"):
        storage.fetched(ADDRESS)
    assert storage.read(first.path)["posterior"]["w"].shape[1] == 10
    assert storage.check(second.path) == []


def test_a_torn_commit_of_a_file_server_is_replaced():
    folder = begun()
    commit(folder, 0)
    fsspec.filesystem("memory").pipe_file("/bucket/run/commit.json", b'{"format": 2, "dr')
    commit(folder, 1, complete=True)
    folder.release()
    shutil.rmtree(folder.path)
    np.testing.assert_array_equal(weights(ADDRESS), EXPECTED[:, :10])


def test_nothing_is_written_outside_of_the_working_copy(caches):
    folder = begun()
    commit(folder, 0)
    folder.release()
    shutil.rmtree(folder.path)
    fsspec.filesystem("memory").store["/bucket/run/../../escaped"] = fsspec.filesystem(
        "memory"
    ).store["/bucket/run/commit.json"]
    with pytest.raises(ValueError, match="names a file outside of it"):
        storage.fetched(ADDRESS)
    assert not list(caches.parent.parent.rglob("escaped*"))


@pytest.mark.parametrize(
    ("address", "error", "sentence"),
    [
        ("nothing://bucket/run", ValueError, "is not an address that fsspec knows"),
        ("memory://bucket/none", FileNotFoundError, "There is no run at memory://bucket/none"),
    ],
)
def test_what_is_no_run(address, error, sentence):
    with pytest.raises(error, match=sentence):
        bnn.load(address)


def test_a_run_from_the_library_and_from_the_shell(capsys):
    from bayesnn_ppl.cli import main

    posterior_of = "memory://bucket/run"
    line = "sample linear --data diabetes --warmup 20 --draws 30 --chains 2 --quiet --out"
    assert main([*line.split(), posterior_of]) == 0
    assert {"run.json", "diagnosis.json", "metrics.json"} <= there()
    assert main([*line.split(), posterior_of]) == 1
    assert "a run is never written over" in capsys.readouterr().err
    shutil.rmtree(storage.working_copy(posterior_of))
    assert main(["evaluate", posterior_of, "--json"]) == 0
    assert main(["compare", posterior_of, posterior_of]) == 1
    assert "is given twice" in capsys.readouterr().err
    model = bnn.models.linear()
    run = bnn.load(posterior_of, model)
    assert run.draws["noise_scale"].shape == (2, 30)
    again = run.save("memory://bucket/saved")
    np.testing.assert_array_equal(
        bnn.load("memory://bucket/saved").draws["noise_scale"], run.draws["noise_scale"]
    )
    assert again == storage.working_copy("memory://bucket/saved")


def test_a_damaged_run_is_repaired_at_its_address(capsys):
    from bayesnn_ppl.cli import main

    folder = begun()
    commit(folder, 0)
    commit(folder, 1)
    folder.release()
    memory = fsspec.filesystem("memory")
    record = json.loads(memory.cat("/bucket/run/commit.json"))
    memory.pipe_file(f"/bucket/run/{record['journal'][-1]['file']}", b"damaged")
    shutil.rmtree(folder.path)
    assert main(["check", ADDRESS]) == 1
    assert main(["check", ADDRESS, "--repair"]) == 0
    assert "Repaired: 5 draws" in capsys.readouterr().out
    shutil.rmtree(folder.path)
    np.testing.assert_array_equal(weights(ADDRESS), EXPECTED[:, :5])
