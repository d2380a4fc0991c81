"""Chains shared by workers of Dask: the draws of one process, whatever befalls a worker."""

import os
import random
import signal
import sys
import threading
import time
import types
from pathlib import Path

import numpy as np
import pytest
from numpyro.infer import AIES

import bayesnn_ppl as bnn
from bayesnn_ppl import storage
from bayesnn_ppl.distributed import EndedTogether
from bayesnn_ppl.distributed.clusters import connected
from bayesnn_ppl.distributed.tasks import divided, packed, unpacked
from bayesnn_ppl.inference.sampling.clusters.gathering import require_seen
from bayesnn_ppl.inference.sampling.clusters.parts import Part, draws_of, parts_of

SETTINGS = dict(warmup=30, chains=3, seed=4, float64=True)
X = np.random.default_rng(0).normal(size=(40, 2))
Y = X @ [1.0, -0.5] + 0.3 * np.random.default_rng(1).normal(size=40)


def kernel():
    return bnn.kernels.HMC(bnn.models.linear(), num_leapfrogs=3, mass="diagonal")


def slow_kernel():
    return bnn.kernels.HMC(bnn.models.linear(), num_leapfrogs=400, mass="diagonal")


@pytest.fixture(scope="module")
def cluster():
    with connected("local:3", 3) as client:
        yield client


@pytest.fixture(scope="module")
def alone():
    """The first draws of a run by one process, one chain after another."""
    made = {}

    def first(draws, of=kernel):
        if of not in made:
            one = dict(draws=4000, chain_method="sequential", progress=False)
            made[of] = bnn.sample(of(), X, Y, **one, **SETTINGS).draws
        return {name: a[:, :draws] for name, a in made[of].items()}

    return first


def assert_same(run, expected):
    assert set(run.draws) == set(expected)
    for name, draws in expected.items():
        np.testing.assert_array_equal(run.draws[name], draws)


def test_a_worker_that_is_killed_twice_costs_nothing(cluster, alone, tmp_path):
    """The others do not wait for it, and it does not restart."""
    out, choice, killed = tmp_path / "run", random.Random(0), []

    def kill():
        for number in (1, 2):
            while not any(draws > 500 * number for draws in drawn(out)):
                time.sleep(0.02)
            victim = choice.choice(sorted(cluster.cluster.workers))
            os.kill(cluster.cluster.workers[victim].pid, signal.SIGKILL)
            killed.append(victim)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    began = {}

    def notice(_):
        for part in out.with_name("run.parts").glob("*/starts.npz"):
            began.setdefault(part, set()).add(part.stat().st_mtime_ns)

    run = bnn.sample(
        slow_kernel(), X, Y, draws=4000, out=out, cluster=cluster, progress=False,
        callback=notice, **SETTINGS,
    )  # fmt: skip
    killer.join(10)
    assert len(killed) == 2
    assert len(began) == 3 and all(len(times) == 1 for times in began.values())
    assert_same(run, alone(4000, slow_kernel))
    assert storage.check(out) == [] and not out.with_name("run.parts").exists()
    assert run.provenance["processes"] == 3 and storage.read_commit(out)["complete"]


def drawn(out):
    found = out.with_name(f"{out.name}.parts").glob("*/commit.json")
    return [storage.read_commit(file.parent)["draws"] for file in found]


def test_draws_are_gathered_as_the_parts_grow(tmp_path):
    """Each look takes those since the last one, which lie in the journals of slow runs."""
    parts = parts_of(str(tmp_path / "run"), [(0, 1), (1, 3)])
    values = {"w": np.random.default_rng(0).normal(size=(3, 30))}
    folders = [storage.RunFolder.create(Path(part.place), {}) for part in parts]
    done, gathered = 0, []
    for until in (4, 5, 17, 30):
        for part, folder in zip(parts, folders, strict=True):
            new = {"w": part.own(values)["w"][:, done:until]}
            folder.append({"posterior": new, "sample_stats": new})
            folder.commit(None, phase="sample", done=until)
        gathered += [groups["posterior"]["w"] for _, groups in draws_of(parts, done, until)]
        done = until
    for folder in folders:
        folder.release()
    np.testing.assert_array_equal(np.concatenate(gathered, axis=1), values["w"])


def test_a_run_that_is_interrupted_continues_on_a_cluster_only(cluster, alone, tmp_path):
    out, wanted = tmp_path / "run", 40_000
    run = bnn.sample(
        slow_kernel(), X, Y, draws=wanted, out=out, cluster=cluster, progress=False,
        callback=lambda progress: progress.phase == "sample", **SETTINGS,
    )  # fmt: skip
    assert 0 < run.provenance["draws"] < wanted and run.provenance["ended"] == {"by": "callback"}
    with pytest.raises(ValueError, match="are in parts.*cluster="):
        bnn.resume(out, slow_kernel(), X, Y, progress=False)
    run = bnn.resume(out, slow_kernel(), X, Y, cluster=cluster, progress=False)
    assert run.provenance["draws"] == wanted
    for name, draws in alone(4000, slow_kernel).items():
        np.testing.assert_array_equal(run.draws[name][:, :4000], draws)
    more = bnn.extend(out, slow_kernel(), X, Y, draws=5, progress=False)  # in one process
    assert more.provenance["draws"] == wanted + 5 and storage.check(out) == []


def test_a_run_ended_in_its_warmup_continues(cluster, alone, tmp_path):
    out, long = tmp_path / "run", SETTINGS | {"warmup": 10**7}
    with pytest.raises(EndedTogether, match="in its warm-up, after .* of 10000000 draws"):
        bnn.sample(
            kernel(), X, Y, draws=10, out=out, cluster=cluster, progress=False,
            callback=lambda _: True, **long,
        )  # fmt: skip
    assert storage.read_commit(out)["draws"] == 0
    until = {"max_time": 0.01}
    with pytest.raises(EndedTogether, match="in its warm-up"):
        bnn.resume(out, kernel(), X, Y, cluster=cluster, progress=False, until=until)


def test_until_sees_all_chains_and_ends_them_at_one_draw(cluster, alone, tmp_path):
    keep = bnn.Keep(probe=(X[:5], Y[:5]))
    run = bnn.sample(
        kernel(), X, Y, draws=1_000_000, out=tmp_path / "run", cluster=cluster, keep=keep,
        until={"function_rhat": 1.05, "ess": 100}, progress=False, **SETTINGS,
    )  # fmt: skip
    ended, made = run.provenance["ended"], run.provenance["draws"]
    assert ended["by"] == "convergence" and ended["function_rhat"] < 1.05 and ended["ess"] > 100
    assert storage.read_commit(tmp_path / "run")["complete"]
    count = min(made, 4000)
    for name, draws in alone(count).items():
        np.testing.assert_array_equal(run.draws[name][:, :count], draws)
    assert run.function_values()["mean"].shape == (3, made, 5)


@pytest.mark.parametrize(
    "keep", [bnn.Keep(every=3), bnn.Keep(weights="moments", probe=(X[:5], Y[:5]))]
)
def test_a_run_of_one_process_is_extended_on_a_cluster(cluster, tmp_path, keep):
    """At an address, where workers and the process that gathers share no folder."""
    where, whole = f"file://{tmp_path}/run", dict(chain_method="sequential", progress=False)
    settings = SETTINGS | {"keep": keep}
    bnn.sample(kernel(), X, Y, draws=31, out=where, **whole, **settings)
    run = bnn.extend(where, kernel(), X, Y, draws=30, cluster=cluster, progress=False)
    expected = bnn.sample(kernel(), X, Y, draws=61, out=tmp_path / "all", **whole, **settings)
    found, wanted = run.tree, expected.tree
    for group in ("posterior", "sample_stats", "predictions", "posterior_mean", "starts"):
        assert (group in found.children) == (group in wanted.children)
        for name in wanted.children.get(group, {}):
            np.testing.assert_array_equal(found[group][name].values, wanted[group][name].values)
    assert storage.check(storage.fetched(where)) == []
    assert sorted(path.name for path in tmp_path.iterdir() if "run" in path.name) == ["run"]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, "give `out`"),
        ({"out": "x", "cluster": "moon"}, "There is no cluster `moon`"),
        ({"out": "x", "cluster": "local:0"}, "There is no cluster `local:0`"),
        ({"out": "x", "cluster": 7}, "Dask client or cluster"),
        ({"out": "x", "init": bnn.approximations.Ensemble(bnn.models.linear())}, "trains the"),
        ({"out": "x", "kernel": AIES(bnn.models.linear()), "chains": 4}, "moves all chains"),
    ],
)
def test_what_cannot_be_shared_is_refused_and_leaves_no_folder(given, sentence, tmp_path):
    if "out" in given:
        given = given | {"out": tmp_path / "run"}
    given = {"kernel": kernel(), "cluster": "local"} | given
    sampler = given.pop("kernel")
    with pytest.raises((ValueError, TypeError), match=sentence):
        bnn.sample(sampler, X, Y, draws=5, **SETTINGS | given)
    assert not list(tmp_path.iterdir())


def test_a_scheduler_that_does_not_answer_is_named(monkeypatch):
    monkeypatch.setattr("bayesnn_ppl.distributed.clusters._CONNECT_SECONDS", 0.5)
    with pytest.raises(ValueError, match="No Dask scheduler answers at tcp://127.0.0.1:1 "):
        with connected("tcp://127.0.0.1:1", 2):
            pass


def test_jobs_of_slurm_need_dask_jobqueue(monkeypatch):
    monkeypatch.setitem(sys.modules, "dask_jobqueue", None)
    with pytest.raises(ImportError, match="pip install dask-jobqueue"):
        with connected("slurm:2", 2):
            pass


def test_a_part_of_a_run_is_where_it_says():
    assert divided(5, 2) == [[0, 2], [2, 5]] and divided(2, 9) == [[0, 1], [1, 2]]
    (part,) = parts_of("s3://bucket/run/", [[0, 2]])
    assert part.place == "s3://bucket/run.parts/chains-0-2"
    assert Path(parts_of("/runs/one", [[1, 2]])[0].place) == Path("/runs/one.parts/chains-1-2")


def test_a_part_that_was_lost_before_its_first_commit_is_begun_again(cluster, alone, tmp_path):
    out, seen = tmp_path / "run", []
    left = parts_of(str(out), [[0, 1]])[0].place
    Path(left).mkdir(parents=True)
    (Path(left) / "config.json").write_text("{")

    def notice(progress):
        seen.append((progress.phase, progress.done))

    create = storage.RunFolder.create.__func__

    def created(cls, path, *given, **more):
        """The run begins, and a worker is lost as it makes its part."""
        folder = create(cls, path, *given, **more)
        folder.update_config(parts=[[0, 1], [1, 2], [2, 3]])
        return folder

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storage.RunFolder, "create", classmethod(created))
        run = bnn.sample(
            kernel(), X, Y, draws=20, out=out, cluster=cluster, progress=False, callback=notice,
            **SETTINGS,
        )  # fmt: skip
    assert_same(run, alone(20))
    assert seen[-1] == ("sample", 20), "the last draws are shown too"
    assert (out / "metrics.csv").read_text().splitlines()[-1].startswith("sample,20,")


def test_a_fit_is_not_resumed_on_a_cluster(tmp_path):
    method = bnn.approximations.MAP(bnn.models.linear(), epochs=2)
    bnn.fit(method, X, Y, out=tmp_path / "fit", progress=False)
    with pytest.raises(ValueError, match="continued by one process, since workers"):
        bnn.resume(tmp_path / "fit", method, X, Y, cluster="local", progress=False)


def test_parts_that_are_not_seen_are_named(tmp_path):
    part = Part((0, 1), str(tmp_path / "chains-0-1"))
    with pytest.raises(RuntimeError, match="chains-0-1, which this process does not see. Give"):
        require_seen([part])


def test_what_a_worker_cannot_import_is_said(monkeypatch):
    """Code by value would go along; that of a module is looked for on the worker."""
    module = types.ModuleType("only_here")
    exec("def model(): ...", vars(module))
    monkeypatch.setitem(sys.modules, "only_here", module)
    value = packed(module.model)
    monkeypatch.delitem(sys.modules, "only_here")
    with pytest.raises(RuntimeError, match="A worker cannot import .*only_here"):
        unpacked(value)
