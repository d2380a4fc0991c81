"""Runs by several processes: with the same mesh the draws of one, else the same distribution."""

import os

import numpy as np
import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl import storage
from tests.distributed import worker
from tests.distributed.processes import ended, start


def asked_for(variable):
    return os.environ.get(variable, "") not in ("", "0")


TOGETHER = {2: ["nuts-2x1", "sghmc-1x2"]}
if asked_for("BAYESNN_SLOW_TESTS"):
    TOGETHER = {2: ["nuts-2x1", "sghmc-1x2", "mclmc-2x1"]}
if asked_for("BAYESNN_ALL_MESHES"):  # four processes that wait for each other on two cores: minutes
    TOGETHER = {
        2: ["nuts-2x1", "sghmc-1x2", "sghmc-stream", "mclmc-2x1"],
        4: ["nuts-2x2", "mclmc-1x4", "sghmc-4x1"],
    }
CASES = [(count, case) for count, cases in TOGETHER.items() for case in cases]


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    """Folders of the runs that 2 (and 4) processes made, by their number."""
    folders = {}
    for count, cases in TOGETHER.items():
        folders[count] = tmp_path_factory.mktemp(f"of-{count}")
        for status, _, error in ended(start(folders[count], count, *cases)):
            assert status == 0, error[-3000:]
    return folders


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Runs by this process, which has four devices; each is made when it is first asked for."""
    folder, made = tmp_path_factory.mktemp("alone"), {}

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "caches"))

        def run(case):
            if case not in made:
                made[case] = worker.run(case, folder)
            return made[case]

        yield run


@pytest.mark.parametrize(("count", "case"), CASES)
def test_the_draws_are_those_of_one_process_with_the_same_mesh(together, alone, count, case):
    expected = alone(case).draws
    with np.load(together[count] / f"{case}.npz") as found:
        assert set(found.files) == set(expected)
        for name, draws in expected.items():
            if worker.CASES[case][1][1] <= 2:
                np.testing.assert_array_equal(found[name], draws)
            else:  # four numbers are summed in another order
                np.testing.assert_allclose(found[name], draws, atol=1e-6)
                assert not np.array_equal(found[name], draws + 1e-5)


def test_each_process_writes_its_own_chains_and_the_run_is_whole(together, alone):
    path = together[2] / "nuts-2x1"
    assert storage.check(path) == []
    run = bnn.load(path)
    assert run.provenance["processes"] == 2 and run.provenance["chains"] == 4
    parts = storage.read_commit(path)["checkpoint"]
    assert [part["chains"] for part in parts] == [[0, 2], [2, 4]]
    for name, values in alone("nuts-2x1").statistics.items():
        np.testing.assert_array_equal(run.statistics[name], values)


@pytest.mark.skipif("mclmc-2x1" not in TOGETHER[2], reason="Set BAYESNN_SLOW_TESTS=1 to run it.")
def test_processes_that_share_no_folder_meet_at_an_address(together, alone, monkeypatch):
    path = together[2] / "mclmc-2x1"
    assert storage.check(path) == []
    copies = [list((together[2] / f"host-{i}" / "bayesnn_ppl/runs").glob("*/")) for i in (0, 1)]
    assert [len(found) for found in copies] == [1, 1]
    for copy in (*copies[0], *copies[1]):  # whole, with nothing left over
        assert storage.check(copy) == []
        assert (copy / "commit.json").read_bytes() == (path / "commit.json").read_bytes()
        assert {f.name for f in (copy / "checkpoint").iterdir()} == {
            f.name for f in (path / "checkpoint").iterdir()
        }
    monkeypatch.setenv("XDG_CACHE_HOME", str(together[2] / "third-host"))
    run = bnn.load(f"file://{path}")
    for name, draws in alone("mclmc-2x1").draws.items():
        np.testing.assert_array_equal(run.draws[name], draws)


def test_a_run_of_two_resumes_in_one(together):
    """On another mesh: what was drawn stays, and new draws are of the same distribution."""
    path = together[2] / "nuts-2x1"
    before = {name: np.array(a) for name, a in bnn.load(path).draws.items()}
    run = bnn.extend(path, worker.kernel("nuts"), *worker.data(), draws=400, progress=False)
    assert run.provenance["draws"] == 430 and storage.check(path) == []
    for name, draws in before.items():
        np.testing.assert_array_equal(run.draws[name][:, :30], draws)
    slopes = run.draws["net.Dense_0.kernel"][:, 30:].reshape(4, 400, -1)
    x, y = worker.data()
    least_squares = np.linalg.lstsq(np.c_[x, np.ones(len(x))], y, rcond=None)[0][:2]
    np.testing.assert_allclose(slopes.mean((0, 1)), least_squares, atol=0.05)
