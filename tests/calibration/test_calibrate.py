"""`calibrate` of real methods on a small linear model, whose posterior is normal in closed form."""

import dataclasses
import json
import signal

import numpy as np
import pytest
from numpyro.infer import NUTS

import bayesnn_ppl as bnn
from bayesnn_ppl.calibration import methods
from bayesnn_ppl.inference.fitting.approximation import Fitted

NOISE = 0.5
# Two features that are nearly equal, so that their weights are strongly correlated.
X = np.linspace(-1, 1, 16, dtype=np.float32)[:, None] + np.array(
    [[0.0, 0.3 * (-1) ** i] for i in range(16)], dtype=np.float32
)


def linear(*, scale=1.0, noise=NOISE):
    return bnn.models.linear(
        prior=bnn.priors.normal(scale), likelihood=bnn.likelihoods.gaussian(noise)
    )


MODEL = linear()
QUICK = {"warmup": 100, "draws": 80, "chains": 2, "progress": False}


def hmc(model):
    return bnn.kernels.HMC(model, num_leapfrogs=6, jitter=0.5, mass="diagonal")


@dataclasses.dataclass(frozen=True)
class Exact:
    """Draws from the closed form, with a temperature or another width: no compilation."""

    model: object
    noise: float = NOISE
    temperature: float = 1.0
    diagonal: bool = False

    def solve(self, problem):
        design = np.column_stack([np.ones(len(problem.x)), problem.x]).astype(float)
        precision = np.eye(3) + design.T @ design / self.noise**2
        mean = np.linalg.solve(precision, design.T @ problem.y / self.noise**2)
        covariance = np.linalg.inv(precision) * self.temperature
        if self.diagonal:  # the mean field of a normal posterior
            covariance = np.diag(1 / np.diag(precision))
        generator = np.random.default_rng(problem.seed)
        draws = generator.multivariate_normal(mean, covariance, size=127).astype(np.float32)
        positions = {
            "net/Dense_0.bias": draws[None, :, :1],
            "net/Dense_0.kernel": draws[None, :, 1:, None],
        }
        return Fitted(positions=positions, record={})


def calibrated(method, model=MODEL, **settings):
    return bnn.calibrate(method, model, X, progress=False, **settings)


@pytest.fixture(scope="module")
def of_hmc(tmp_path_factory):
    """A calibration of HMC in a folder, and the folder."""
    folder = tmp_path_factory.mktemp("calibration") / "hmc"
    return bnn.calibrate(hmc, MODEL, X, replications=60, out=folder, **QUICK), folder


def test_hmc_passes_and_compiles_once(of_hmc):
    found, folder = of_hmc
    assert found.calibrated, found
    assert found.p_value > 0.01
    text = (folder / "replications.jsonl").read_text(encoding="utf-8")
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line["replication"] for line in lines] == list(range(60))
    assert all(line["compile_seconds"] == 0 for line in lines[1:])
    assert {q.name for q in found.quantities} == {
        "f at probe 0",
        "f at probe 1",
        "f at probe 2",
        "net/Dense_0.bias",
        "net/Dense_0.kernel[0, 0]",
        "net/Dense_0.kernel[1, 0]",
        "log likelihood",
        "log prior",
        "log joint",
    }
    assert min(q.among for q in found.quantities) >= 7


def test_a_killed_calibration_resumes_to_the_same_ranks(of_hmc, tmp_path):
    found, folder = of_hmc
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "calibration.json").write_bytes((folder / "calibration.json").read_bytes())
    whole = (folder / "replications.jsonl").read_bytes()
    lines = whole.splitlines(keepends=True)
    (copy / "replications.jsonl").write_bytes(b"".join(lines[:50]) + lines[50][:30])
    again = bnn.calibrate(hmc, MODEL, X, replications=60, out=copy, **QUICK)
    for name, ranks in found.ranks.items():
        np.testing.assert_array_equal(again.ranks[name], ranks)
    assert bnn.Calibration.load(copy).verdict == found.verdict
    with pytest.raises(ValueError, match="other settings:\n  seed: 0 there, 1 now"):
        bnn.calibrate(hmc, MODEL, X, replications=60, out=copy, seed=1, **QUICK)


def test_ctrl_c_keeps_what_is_done(of_hmc, tmp_path, monkeypatch):
    posterior, calls = methods.Method.posterior, []

    def interrupted(self, *args, **kwargs):
        calls.append(1)
        if len(calls) == 23:
            signal.raise_signal(signal.SIGINT)
        return posterior(self, *args, **kwargs)

    monkeypatch.setattr(methods.Method, "posterior", interrupted)
    found = bnn.calibrate(hmc, MODEL, X, replications=60, out=tmp_path / "run", **QUICK)
    assert found.interrupted
    assert found.replications == 22
    assert "Interrupted: 22 of 60 replications are done." in found.verdict
    first = of_hmc[0].ranks["f at probe 0"]
    among = {q.name: q.among for q in of_hmc[0].quantities}
    if among["f at probe 0"] == found.quantities[0].among:
        np.testing.assert_array_equal(found.ranks["f at probe 0"], first[:22])
    calls.clear()
    with pytest.raises(KeyboardInterrupt):
        calls.extend([1] * 10)
        bnn.calibrate(hmc, MODEL, X, replications=60, **QUICK)


def test_exact_draws_pass():
    assert calibrated(Exact(MODEL), replications=100).calibrated


@pytest.mark.parametrize(
    ("method", "truth", "status"),
    [
        (Exact(MODEL, temperature=0.5), MODEL, "too narrow"),
        (Exact(MODEL, temperature=2.0), MODEL, "too wide"),
        (Exact(MODEL, noise=NOISE * 0.7), linear(noise=NOISE), None),
        (Exact(MODEL), linear(noise=NOISE * 0.7), "too wide"),
        (Exact(MODEL), linear(scale=2.0), None),
    ],
)
def test_wrong_targets_are_found(method, truth, status):
    found = calibrated(method, truth, replications=80)
    assert not found.calibrated, found
    assert status in (None, found.status), found
    assert found.p_value < 1e-3


@pytest.mark.check
def test_a_cold_model_is_found_under_hmc():
    """Under a real kernel, whose temperature is that of the whole posterior."""
    cold = bnn.calibrate(hmc(bnn.cold(MODEL, 0.4)), MODEL, X, replications=60, **QUICK)
    assert cold.status == "too narrow", cold
    assert "by design" in cold.verdict


def test_posterior_sbc_around_data(of_hmc):
    generator = np.random.default_rng(0)
    y = (X @ [1.0, -0.5] + 0.3 + NOISE * generator.normal(size=len(X))).astype(np.float32)
    exact = calibrated(Exact(MODEL), y=y, replications=60)
    assert exact.calibrated, exact
    around = bnn.fit(Exact(MODEL), X, y, progress=False)
    cold = calibrated(Exact(MODEL, temperature=0.4), y=y, around=around, replications=60)
    assert cold.status == "too narrow", cold
    assert cold.record["around_data"]
    with pytest.raises(ValueError, match="has 127 draws, and 200 replications need one each"):
        calibrated(Exact(MODEL), y=y, around=around)


def test_quantities_of_ones_own():
    def slopes(values):
        return values["net/Dense_0.kernel"].sum()

    found = calibrated(Exact(MODEL), replications=20, quantities={"sum of slopes": slopes})
    assert "sum of slopes" in found.ranks
    with pytest.raises(TypeError, match="must return one number for one draw"):
        calibrated(
            Exact(MODEL), replications=20, quantities={"a": lambda v: v["net/Dense_0.kernel"]}
        )


def test_labels_are_ranked_by_probability_and_may_lack_a_class():
    model = bnn.models.logistic(classes=3)
    found = bnn.calibrate(
        bnn.approximations.Laplace(model, draws=31), model, X[:5], replications=20, progress=False
    )
    assert {"P(y = 1) at probe 0", "P(y = 2) at probe 0"} <= set(found.ranks)


@pytest.mark.parametrize(
    ("arguments", "settings", "error", "sentence"),
    [
        ((MODEL, MODEL), {}, TypeError, "`method` is a kernel, an approximation, or a"),
        ((3, MODEL), {}, TypeError, "`calibrate` takes a kernel such as"),
        ((NUTS, None), {}, TypeError, "Build it from your model"),
        ((Exact(MODEL), MODEL), {"warmup": 5}, ValueError, "`warmup` are settings of a kernel"),
        ((Exact(MODEL), MODEL), {"replications": 5}, ValueError, "must be at least 20"),
        ((Exact(MODEL), MODEL), {"probe": X[:, :1]}, ValueError, "`probe` has rows of shape"),
        ((Exact(MODEL), MODEL), {"around": 3}, TypeError, "must be a `Posterior`"),
        ((Exact(MODEL), MODEL), {"false_alarm": 2}, ValueError, "a probability between 0 and 1"),
        ((NUTS(MODEL), MODEL), {"draws": 3}, ValueError, "too few to rank a parameter among"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_compiled(
    arguments, settings, error, sentence
):
    with pytest.raises(error, match=sentence):
        bnn.calibrate(*arguments, X, progress=False, **settings)
