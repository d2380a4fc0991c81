"""A run that ends when it is done: at once, for the reason it says, and without a bias."""

import time

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import HMC
from scipy import stats

import bayesnn_ppl as bnn

MODEL = bnn.models.linear()
SETTINGS = dict(warmup=100, chains=2, seed=0, progress=False)


def kernel(model=MODEL, num_steps=5):
    return HMC(model, num_steps=num_steps, trajectory_length=None)


@pytest.fixture(autouse=True)
def look_often(monkeypatch):
    """After every block: these take milliseconds, and are not worth a look otherwise."""
    for name in ("_CHECK_SECONDS", "_LOOK_SHARE"):
        monkeypatch.setattr(f"bayesnn_ppl.inference.runtime.metrics_log.{name}", 0.0)


def test_a_run_ends_within_one_block_of_convergence(regression):
    x, y = regression
    blocks = []
    posterior = bnn.sample(
        kernel(),
        x,
        y,
        draws=20_000,
        keep=bnn.Keep(probe=(x[:20], y[:20])),
        until=dict(function_rhat=1.02, ess=300),
        callback=lambda p: blocks.append((p.phase, p.done)),
        **SETTINGS,
    )
    done = posterior.provenance["draws"]
    ended = posterior.provenance["ended"]
    assert done < 5000 and ended["by"] == "convergence"
    assert ended["function_rhat"] < 1.02 and ended["ess"] >= 300
    (mean,) = [s for name, s in posterior.diagnose().functions.items() if name == "mean"]
    assert mean["rhat_max"] < 1.02 and min(mean["ess_bulk_min"], mean["ess_tail_min"]) >= 300
    # One block earlier it had not converged.
    before = sorted(d for phase, d in blocks if phase == "sample")[-2]
    values = posterior.function_values()
    values = {name: array[:, :before] for name, array in values.items()}
    flat = np.concatenate([a.reshape(2, before, -1) for a in values.values()], axis=2)
    rhat, bulk = bnn.diagnostics.rhat(flat), bnn.diagnostics.ess_bulk(flat)
    tail = bnn.diagnostics.ess_tail(flat)
    assert np.nanmax(rhat) >= 1.02 or min(np.nanmin(bulk), np.nanmin(tail)) < 300


def test_a_run_that_cannot_converge_ends_at_its_limit_and_says_so(capsys):
    def two_modes(x, y=None, *, batch_size=None):
        modes = dist.Normal(np.array([-20.0, 20.0], np.float32), 0.5)
        side = numpyro.sample(
            "side", dist.MixtureSameFamily(dist.Categorical(np.ones(2) / 2), modes)
        )
        with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
            x, y = bnn.minibatch(x, y)
            numpyro.sample("y", dist.Normal(side + 0.0 * x, 100.0), obs=y)

    x, y = np.zeros(20, np.float32), np.zeros(20, np.float32)
    settings = SETTINGS | dict(
        init={"side": np.array([20.0, -20.0], np.float32)}, keep=bnn.Keep(weights="moments")
    )
    nuts = kernel(two_modes)
    # Compiled before: on a slow machine, compilation alone would take the limit.
    bnn.sample(nuts, x, y, draws=100, until=dict(function_rhat=1.01), **settings)
    began = time.monotonic()
    posterior = bnn.sample(
        nuts,
        x,
        y,
        draws=10_000_000,
        until=dict(function_rhat=1.01, max_time="6s"),
        **settings | {"progress": True},
    )
    assert posterior.provenance["ended"] == {"by": "max_time", "max_seconds": 6.0}
    assert "The time is up, 6 s" in capsys.readouterr().err
    assert time.monotonic() - began < 60
    assert posterior.provenance["draws"] < 10_000_000


def test_a_run_on_disk_ends_resumes_and_is_complete(regression, tmp_path):
    x, y = regression
    until = dict(ess=200)
    run = bnn.sample(kernel(), x, y, draws=20_000, until=until, out=tmp_path / "run", **SETTINGS)
    done = run.provenance["draws"]
    assert run.provenance["ended"]["by"] == "convergence" and done < 5000
    assert len(run.probe[0]) == min(100, len(x)) and run.probe[1] is None
    again = bnn.resume(tmp_path / "run", kernel(), x, y, progress=False)
    assert again.provenance["draws"] == done
    more = bnn.extend(
        tmp_path / "run", kernel(), x, y, draws=20_000, until=dict(ess=400), progress=False
    )
    assert done < more.provenance["draws"] < 10_000
    plain = bnn.sample(kernel(), x, y, draws=10, out=tmp_path / "plain", **SETTINGS)
    assert plain.provenance["ended"] == {"by": "draws"}
    with pytest.raises(ValueError, match="keeps no function values"):
        bnn.extend(tmp_path / "plain", kernel(), x, y, draws=10, until=until, progress=False)


def test_time_may_end_before_the_warm_up_and_nothing_is_lost(regression, tmp_path):
    settings = SETTINGS | {"warmup": 100_000, "out": tmp_path / "run"}
    with pytest.raises(RuntimeError, match="by its max_time, ended the run in its warm-up"):
        bnn.sample(kernel(), *regression, draws=10, until=dict(max_time=0.01), **settings)


def world(seed):
    """A draw of the prior and data from it: one unknown mean, ten observations."""
    generator = np.random.default_rng(seed)
    truth = generator.normal()
    return truth, generator.normal(truth, 1.0, size=10).astype(np.float32)


def one_mean(x, y=None, *, batch_size=None):
    mean = numpyro.sample("mean", dist.Normal(0, 1))
    with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
        x, y = bnn.minibatch(x, y)
        numpyro.sample("y", dist.Normal(mean + 0.0 * x, 1.0), obs=y)


def ranks(shift, count=100):
    """Ranks of the truth among draws of runs that stopped by themselves, in [0, 1]."""
    found = []
    for seed in range(count):
        truth, y = world(seed)
        run = bnn.sample(
            kernel(one_mean, num_steps=2),  # more steps resonate in one dimension
            np.zeros(10, np.float32),
            y,
            draws=5000,
            until=dict(function_rhat=1.02, ess=100),
            **SETTINGS | {"seed": seed},
        )
        assert run.provenance["ended"]["by"] == "convergence"
        draws = run.draws["mean"].ravel()
        thinned = draws[:: max(1, len(draws) // 99)] + shift
        found.append(((thinned < truth).sum() + 0.5) / (len(thinned) + 1))
    return np.array(found)


@pytest.mark.check
def test_stopping_does_not_bias_the_draws():
    """Simulation-based calibration (Talts et al. 2018); the control is off by half an sd."""
    found = ranks(0.0)
    assert stats.kstest(found, "uniform").pvalue > 1e-3
    assert stats.kstest(ranks(0.15), "uniform").pvalue < 1e-3


@pytest.mark.parametrize(
    ("until", "error", "words"),
    [
        ("10m", TypeError, "is a mapping"),
        ({}, ValueError, "is empty"),
        ({"rhat": 1.01}, ValueError, "`function_rhat`"),
        ({"function_rhat": 0.99}, ValueError, "from above"),
        ({"ess": -1}, ValueError, "positive"),
        ({"max_time": "soon"}, ValueError, "not a time"),
        ({"max_time": 0}, ValueError, "positive"),
    ],
)
def test_refused(regression, until, error, words):
    with pytest.raises(error, match=words):
        bnn.sample(kernel(), *regression, draws=10, until=until, **SETTINGS)
