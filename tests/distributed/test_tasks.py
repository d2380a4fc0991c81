"""Calls on workers of Dask, of a fit and of a calibration; none is lost with its worker."""

import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl.distributed.clusters import connected
from bayesnn_ppl.distributed.tasks import calls_on_workers

X = np.random.default_rng(0).normal(size=(40, 2))
Y = X @ [1.0, -0.5] + 0.3 * np.random.default_rng(1).normal(size=40)
APPROXIMATIONS = bnn.approximations


@pytest.fixture(scope="module")
def client():
    with connected("local:2", 2) as client:
        yield client


class Shared:
    """What all calls share; a worker counts those that it made with it."""

    def __init__(self, folder):
        self.folder, self.calls = folder, 0


def called(shared, number):
    """The square, and how many calls this worker has made; 3 ends its worker the first time."""
    mark = shared.folder / "killed"
    if number == 3 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    if number < 0:
        raise ValueError(f"{number} has no root.")
    shared.calls += 1
    return number**2, shared.calls


def test_each_call_is_made_once_and_a_lost_one_again(client, tmp_path):
    calls = calls_on_workers(client, called, Shared(tmp_path), list(range(8)))
    found = {index: result() for index, result in calls}
    assert [found[i][0] for i in range(8)] == [i**2 for i in range(8)]
    assert (tmp_path / "killed").exists()
    assert max(count for _, count in found.values()) > 1, "what is shared is unpacked once"


def test_an_error_is_that_of_its_call_alone(client, tmp_path):
    ended = set()
    for index, result in calls_on_workers(client, called, Shared(tmp_path), [2, -1]):
        ended.add(index)
        if index == 0:
            assert result()[0] == 4
        else:
            with pytest.raises(ValueError, match="-1 has no root"):
                result()
    assert ended == {0, 1}


def mlp(**settings):
    return bnn.models.mlp(hidden=(4,), **settings)


@pytest.mark.parametrize(
    "approximation",
    [
        APPROXIMATIONS.Ensemble(mlp(), members=3, epochs=8),
        APPROXIMATIONS.Ensemble(
            mlp(likelihood=bnn.likelihoods.gaussian(scale=0.3)),
            members=3,
            epochs=8,
            objective="posterior",
            anchored=True,
            validation_fraction=0.0,
            patience=None,
        ),
        APPROXIMATIONS.Laplace(bnn.models.linear(), draws=10),
    ],
    ids=["ensemble", "anchored", "one task"],
)
def test_a_fit_on_workers_is_that_of_one_process(client, approximation, tmp_path):
    how = dict(seed=2, float64=True, progress=False)
    alone = bnn.fit(approximation, X, Y, **how)
    shared = bnn.fit(approximation, X, Y, cluster=client, out=tmp_path / "run", **how)
    for name, draws in alone.draws.items():
        np.testing.assert_allclose(shared.draws[name], draws, rtol=1e-5, atol=1e-7)
        assert len(draws) == 1 or np.abs(draws[0] - draws[1]).max() > 1e-3, "members differ"
    here, there = (run.provenance["approximation"] for run in (alone, shared))
    assert set(here) == set(there)
    if "best_losses" in here:
        assert there["best_losses"] == pytest.approx(here["best_losses"], rel=1e-5)
    assert bnn.load(tmp_path / "run").provenance["chains"] == alone.provenance["chains"]


@pytest.mark.parametrize("given", ["mesh", "callback"])
def test_what_belongs_to_this_process_is_refused(given, tmp_path):
    values = {"mesh": bnn.device_mesh(1, 1), "callback": print}
    with pytest.raises(ValueError, match=f"`{given}` is of this process"):
        bnn.fit(
            APPROXIMATIONS.MAP(bnn.models.linear()),
            X,
            Y,
            cluster="local:2",
            out=tmp_path / "run",
            **{given: values[given]},
        )
    assert not (tmp_path / "run").exists()


def test_a_calibration_on_workers_has_the_ranks_of_one_process(client, tmp_path):
    model = bnn.models.linear(likelihood=bnn.likelihoods.gaussian(scale=0.5))
    kernel = bnn.kernels.HMC(model, num_leapfrogs=4)
    lines = []
    for place, cluster in (("alone", None), ("shared", client)):
        out: Path = tmp_path / place
        bnn.calibrate(
            kernel,
            model,
            X[:12],
            replications=20,
            warmup=30,
            draws=30,
            float64=True,
            progress=False,
            out=out,
            cluster=cluster,
        )
        found = (out / "replications.jsonl").read_text().splitlines()
        lines.append({line["replication"]: line for line in map(json.loads, found)})
    assert len(lines[0]) == 20 and set(lines[0]) == set(lines[1])
    for replication, line in lines[0].items():
        assert line["ranks"] == lines[1][replication]["ranks"]
