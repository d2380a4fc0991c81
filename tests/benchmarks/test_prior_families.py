"""Priors of one variance, the errors of paired differences, and going on where it stopped."""

import jax
import numpy as np
import pytest

from bayesnn_ppl.settings.models.prior_families import prior_of
from benchmarks.priors import prior_families
from benchmarks.priors.prior_families import BASE, row_scores, sampling_error

pytestmark = pytest.mark.check


@pytest.mark.parametrize(
    ("family", "kurtosis"), [(BASE, 3.0), ("mixture", 9.61), ("logistic", 4.2)]
)
def test_families_have_one_variance_and_differ_in_shape(family, kurtosis):
    law = prior_of(family, 1 / 30)("Dense_0.kernel", (8, 50))
    assert float(law.mean) == 0 and float(law.variance) == pytest.approx(1 / 30)
    grid = np.linspace(-15, 15, 600_001) * 30**-0.5
    density = np.exp(np.asarray(law.log_prob(grid), float)) * (grid[1] - grid[0])
    assert np.sum(density * grid**4) * 900 == pytest.approx(kurtosis, rel=2e-3)


def test_the_jackknife_knows_how_far_scores_of_four_chains_scatter():
    """Against the scatter over many runs, and against the naive error, as if draws were chains'."""
    generator = np.random.default_rng(1)
    # Every chain is off by its own amount, as chains that mix slowly are.
    noise = generator.normal(size=(2000, 4, 1, 1)) * 0.1
    log_p = noise + 0.01 * generator.normal(size=(2000, 4, 20, 1))
    scatter = np.std([row_scores(p).mean() for p in log_p])
    squares = np.mean([sampling_error(p) ** 2 for p in log_p])
    # The mean of 2 000 variances of 3 degrees of freedom is known to 1.8 %.
    assert squares**0.5 == pytest.approx(scatter, rel=0.06)
    naive = log_p.std() / 80**0.5
    assert naive < 0.5 * scatter


def test_one_run_of_a_tiny_problem(monkeypatch):
    """Through our HMC to scores in the data's units; the data set is bundled."""
    settings = {
        "variance": 1 / 30,
        "hidden": [3],
        "kernel": {"num_leapfrogs": 5, "step_size": 1e-2},
        "warmup": 10,
        "draws": 20,
        "until": {},
    }
    found = prior_families.run("diabetes", 0, "logistic", settings, 600.0)
    scores = np.array(found["rows"].split(), float)
    assert found["nll"] == pytest.approx(scores.mean(), abs=1e-5)
    # Disease scores have a standard deviation of 77: a normal of that width costs 5.8 nats.
    assert 5.0 < found["nll"] < 7.5
    assert found["draws"] == 20 and found["function_rhat"] >= 1 and found["sampling_error"] > 0
    assert "numpyro" in found["versions"] and jax.__version__ in found["versions"]
