"""A run without a sampler: processes that write draws which their numbers determine.

What is under test is everything around the sampler: the team, the journals, the commits. So a trial
takes a second, and every draw that is read can be checked against what it must be.
"""

import errno
import os
import resource
import signal
import sys
import time
import traceback
from pathlib import Path

import numpy as np

from bayesnn_ppl import distributed, storage
from bayesnn_ppl.storage import RunFolder, SharedFolder, zarr_store

CHAINS, TOTAL, WIDTH, CHUNK = 6, 60, 4, 16
CONFIG = {"kernel": "none", "site_names": {"w": "w"}, "chains": CHAINS}
STOPPED = 75


def drawn(begin, end, chains=(0, CHAINS)):
    """The draws begin, ..., end - 1 of some chains, as a sampler with one seed gives them."""
    chain = np.arange(*chains, dtype=np.float64)[:, None]
    number = np.arange(begin, end, dtype=np.float64)[None]
    scalar = np.sin(1000 * chain + number)
    w = scalar[..., None] * np.arange(1.0, WIDTH + 1)
    return {"posterior": {"w": w}, "sample_stats": {"lp": scalar}}


def state_after(done, chains):
    return {"z": np.cos(np.arange(*chains) * 100.0 + done)}


def write(path, index, count, port, faults):
    """One of `count` processes that write the run to its end; called in a process of its own.

    Args:
        path: the run folder.
        index, count: which one, of how many.
        port: of process 0.
        faults: what befalls this process: "full" -> the number of the write that finds the disk
            full, "limit" -> the most bytes of a file, "jump" -> seconds that the clock leaps.
    """
    zarr_store._MOST_CHUNK_DRAWS = CHUNK
    if "jump" in faults:
        before = time.time
        leap = time.monotonic() + 0.1
        time.time = lambda: before() + (faults["jump"] if time.monotonic() > leap else 0.0)
    if "limit" in faults:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (faults["limit"], faults["limit"]))
    if "full" in faults:
        _fill_the_disk(faults["full"])
    team = _meet(index, count, port)
    each = CHAINS // count
    chains = (index * each, (index + 1) * each)
    with team.guarded(path):
        run = _open(path, team, chains)
        done = run.commit_record["draws"]
        if done:
            begin, end = chains if count > 1 else (0, CHAINS)
            held = run.load_state()["z"][begin:end]
            np.testing.assert_array_equal(held, state_after(done, (begin, end))["z"])
        generator = np.random.default_rng(done)
        while done < TOTAL:
            size = min(TOTAL - done, int(team.agree(int(generator.integers(1, 8)))[0]))
            run.append(drawn(done, done + size, chains))
            done += size
            time.sleep(0.01)
            run.commit(state_after(done, chains), phase="sample", done=done, complete=done == TOTAL)
        run.release()
        team.agree("done")
    team.close()


def _open(path, team, chains):
    def create():
        return RunFolder.create(path, CONFIG)

    exists = (path / "commit.json").exists()
    if team.count == 1:
        return RunFolder.reopen(path) if exists else create()
    return SharedFolder.shared(path, team, chains, None if exists else create)


def _meet(index, count, port):
    if count == 1:
        return distributed.current()
    return distributed.initialize(f"127.0.0.1:{port}", count, index, silence=3, timeout=15)


def _fill_the_disk(after):
    """From the n-th write on, the disk is full."""
    synchronise, count = os.fsync, [0]

    def fsync(file):
        count[0] += 1
        if count[0] > after:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        synchronise(file)

    os.fsync = fsync


def start(path, index, count, port, said, faults):
    """Fork a writer; returns its process number. Its last words go to the folder `said`."""
    process = os.fork()
    if process:
        return process
    status = 0
    try:
        words = os.open(Path(said) / f"words-{index}", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        os.dup2(words, 2)
        sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
        write(Path(path), index, count, port, faults)
    except (OSError, ValueError, RuntimeError) as error:
        print(f"bayesnn: error: {error}", file=sys.stderr, flush=True)
        status = 1
    except BaseException:
        traceback.print_exc()
        status = 3
    os._exit(status)


def holds(path, draws):
    """Whether the run holds exactly the first `draws` draws of all chains."""
    tree = storage.read(path)
    expected = drawn(0, draws)
    return all(
        np.array_equal(tree[group][name].values, array)
        for group, block in expected.items()
        for name, array in block.items()
    )
