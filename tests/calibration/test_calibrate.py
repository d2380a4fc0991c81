"""`calibrate` passes right methods, and finds wrong ones: temperature, prior, noise, VI, MCLMC."""

import json
import warnings

import matplotlib.pyplot as plt
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from matplotlib.text import Text
from numpyro.infer import NUTS

import bayesnn_ppl as bnn
from bayesnn_ppl.calibration import Calibration
from bayesnn_ppl.cli import main

WEIGHTS, ROWS = 6, 10
X = np.random.default_rng(0).normal(size=(ROWS, WEIGHTS)).astype(np.float32)
FEW = {"replications": 100, "seed": 1, "progress": False}


def linear(*, prior=1.0, noise=1.0):
    """A conjugate model in which the prior matters: 7 coefficients and 10 rows."""

    def model(x, y=None, *, batch_size=None):
        weights = numpyro.sample("w", dist.Normal(0, prior).expand([WEIGHTS]).to_event(1))
        bias = numpyro.sample("b", dist.Normal(0, prior))
        with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
            x, y = bnn.minibatch(x, y)
            numpyro.sample("y", dist.Normal(x @ weights + bias, noise), obs=y)

    return model


TRUTH = linear()


def status_of(found, name):
    return next(q.status for q in found.quantities if q.name == name)


@pytest.mark.parametrize(
    "method",
    [
        lambda: NUTS(TRUTH),
        lambda: bnn.kernels.HMC(TRUTH, num_leapfrogs=8, jitter=0.5, mass="diagonal"),
        lambda: bnn.kernels.ChEES(TRUTH),
    ],
    ids=["NUTS", "HMC", "ChEES"],
)
def test_right_samplers_pass(method):
    found = bnn.calibrate(method(), TRUTH, X, **FEW)
    assert found.calibrated, found
    assert found.replications == 100 and found.failed == 0
    # Function values, the weights of a linear model, and three densities.
    assert {"f at probe 0", "b", "w[0]", "log likelihood", "log joint"} <= set(found.ranks)
    assert all(q.test is not None for q in found.quantities)


def test_a_wrong_temperature_is_too_narrow():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that latents besides weights depend on their form
        found = bnn.calibrate(NUTS(bnn.cold(TRUTH, 0.5)), TRUTH, X, **FEW)
    assert found.status == "too narrow" and found.p_value < 1e-9
    ratios = [q.test.spread for q in found.quantities if not q.density]
    assert np.median(ratios) == pytest.approx(0.5**0.5, abs=0.1)
    assert "tempers the whole posterior, T = 0.5" in found.verdict


def test_a_wider_prior_is_found():
    """Function values hardly show it; the prior density of the draws does."""
    found = bnn.calibrate(NUTS(linear(prior=1.3)), TRUTH, X, **{**FEW, "replications": 200})
    assert found.status == "too wide" and status_of(found, "log prior") == "too wide"


def test_a_likelihood_of_another_noise_is_found():
    found = bnn.calibrate(NUTS(linear(noise=1.3)), TRUTH, X, **FEW)
    assert not found.calibrated and found.p_value < 1e-9
    assert status_of(found, "log likelihood") == "too wide"


def test_mean_field_variances_are_too_small():
    method = bnn.approximations.Variational(TRUTH)
    found = bnn.calibrate(method, TRUTH, X, **FEW)
    assert not found.calibrated
    narrow = [q for q in found.quantities if q.status == "too narrow"]
    assert narrow and all(q.test.spread < 0.95 for q in narrow if not q.density)


def test_the_bias_of_mclmc_is_found():
    """By the log joint, on which the small biases of all coefficients add up."""
    found = bnn.calibrate(
        bnn.kernels.MCLMC(TRUTH),
        TRUTH,
        X,
        warmup=500,
        draws=300,
        replications=200,
        seed=1,
        progress=False,
    )
    assert found.status == "too narrow" and status_of(found, "log joint") == "too narrow"


def test_around_data():
    """Posterior SBC: a right method passes, and one of too little noise does not."""
    y = (X @ np.linspace(-1, 1, WEIGHTS)).astype(np.float32)
    right = bnn.calibrate(NUTS(TRUTH), TRUTH, X, y, **FEW)
    assert right.calibrated and "around the data" in str(right)
    around = bnn.sample(NUTS(TRUTH), X, y, warmup=200, draws=500, chains=2, seed=0, progress=False)
    wrong = bnn.calibrate(NUTS(linear(noise=0.7)), TRUTH, X, y, around=around, **FEW)
    assert not wrong.calibrated


def laplace(**settings):
    settings = {"replications": 24, "seed": 3, "progress": False} | settings
    return bnn.calibrate(bnn.approximations.Laplace(TRUTH, draws=63), TRUTH, X, **settings)


def test_a_killed_calibration_resumes_to_the_same_ranks(tmp_path):
    whole = laplace()
    laplace(out=tmp_path / "c", replications=20)
    lines = (tmp_path / "c" / "replications.jsonl").read_bytes().splitlines(keepends=True)
    # Killed while the ninth replication was written.
    (tmp_path / "c" / "replications.jsonl").write_bytes(b"".join(lines[:8]) + lines[8][:30])
    resumed = laplace(out=tmp_path / "c")
    assert resumed.replications == 24
    for name, ranks in whole.ranks.items():
        assert (resumed.ranks[name] == ranks).all(), name
    loaded = Calibration.load(tmp_path / "c")
    assert str(loaded) == str(resumed)
    with pytest.raises(ValueError, match="other settings.*\n.*seed"):
        laplace(out=tmp_path / "c", seed=4)
    with pytest.raises(FileExistsError, match="holds no calibration"):
        laplace(out=tmp_path)


def test_draws_that_are_worth_too_little_are_not_judged():
    """Chains that hardly move have ranks at the ends, and nothing may be concluded from them."""
    kernel = bnn.kernels.RandomWalk(TRUTH)
    found = bnn.calibrate(
        kernel, TRUTH, X, warmup=50, draws=20, replications=20, seed=0, progress=False
    )
    assert found.status == "not judged" and "worth" in found.verdict and "`draws`" in found.verdict


def test_what_it_shows(tmp_path):
    found = laplace()
    assert max(map(len, str(found).splitlines())) <= 88
    assert found.status in found._repr_html_() and "p_value" in found.to_json()
    figure = found.plot(most=2)
    words = " ".join(" ".join(t.get_text() for t in figure.findobj(Text)).split())
    assert len(figure.axes) == 4 and "Left: ranks of the true value" in words
    plt.close(figure)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"method": 3}, TypeError, "takes a kernel such as"),
        ({"replications": 5}, ValueError, "`replications`"),
        ({"draws": 3}, ValueError, "too few to rank"),
        ({"probe": np.ones((2, 3), np.float32)}, ValueError, "rows of shape"),
        ({"around": 3, "y": np.zeros(ROWS, np.float32)}, TypeError, "must be a `Posterior`"),
        ({"quantities": {"w": lambda values: values["w"]}}, TypeError, "one number for one draw"),
        ({"false_alarm": 2}, ValueError, "`false_alarm`"),
    ],
)
def test_refusals(change, error, words):
    known = {"method": NUTS(TRUTH), "replications": 20, "progress": False} | change
    method = known.pop("method")
    with pytest.raises(error, match=words):
        bnn.calibrate(method, TRUTH, X, **known)


def test_an_approximation_has_no_warmup():
    with pytest.raises(ValueError, match="is an approximation"):
        laplace(warmup=10)


def test_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["calibrate", "linear", "--noise-scale", "0.7", "--rows", "30", "--quiet"]
    words += ["--replications", "20"]
    assert main([*words, "--out", "found"]) == 0
    shown = capsys.readouterr().out
    assert "Calibration: calibrated" in shown and "30 training rows of diabetes" in shown
    assert (tmp_path / "found" / "ranks.png").stat().st_size > 10_000
    # Resumed: nothing is made again.
    assert main([*words, "--out", "found", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["replications"] == 20
    assert main(["calibrate", "linear", "--set", "draws=3"]) == 1
    assert "--set is for --approximation" in capsys.readouterr().err
    assert main([*words, "--approximation", "laplace", "--warmup", "3"]) == 1
    assert "--warmup is for kernels" in capsys.readouterr().err
