"""A disk that is really full: nothing committed is lost, and a run continues when there is room."""

import errno
import subprocess

import numpy as np
import pytest

from bayesnn_ppl import storage
from bayesnn_ppl.storage import RunFolder

BLOCK = 5


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 300 kB, and what makes it larger."""
    place = tmp_path / "disk"
    place.mkdir()

    def mount(*options):
        command = ["mount", "-t", "tmpfs", *options, "tmpfs", str(place)]
        return subprocess.run(command, capture_output=True).returncode == 0

    try:
        mounted = mount("-o", "size=300k")
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("This system does not let the test mount a file system.")
    yield place, lambda: mount("-o", "remount,size=20m")
    subprocess.run(["umount", str(place)], check=True)


def block(number):
    values = np.random.default_rng(number).normal(size=(2, BLOCK, 200))
    return {"posterior": {"w": values}}


def commit(folder, number):
    folder.append(block(number))
    folder.commit({"s": np.array(number)}, phase="sample", done=BLOCK * (number + 1))


def expected(blocks):
    return np.concatenate([block(n)["posterior"]["w"] for n in range(blocks)], axis=1)


def test_a_full_disk_keeps_what_was_committed_and_the_run_continues(small_disk):
    disk, enlarge = small_disk
    path = disk / "run"
    folder = RunFolder.create(path, {"chains": 2})
    with pytest.raises(OSError, match="space left.*draws per chain that were committed") as error:
        for number in range(100):
            commit(folder, number)
    assert error.value.errno == errno.ENOSPC
    folder.release()
    assert 0 < number < 99, "the disk was to become full in the middle"
    assert storage.read_commit(path)["draws"] == BLOCK * number
    np.testing.assert_array_equal(storage.read(path)["posterior"]["w"], expected(number))
    assert enlarge()
    folder = RunFolder.reopen(path)
    assert folder.load_state()["s"] == number - 1
    commit(folder, number)
    commit(folder, number + 1)
    folder.release()
    np.testing.assert_array_equal(storage.read(path)["posterior"]["w"], expected(number + 2))
    assert storage.check(path) == []
