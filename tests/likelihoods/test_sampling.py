"""From data to scores by NUTS: counts, labels in order that train dirtily, and heavy tails."""

import math

import numpy as np
import numpyro.distributions as dist
import pytest
from numpyro.infer import NUTS

import bayesnn_ppl as bnn

GENERATOR = np.random.default_rng(6)
X = GENERATOR.uniform(-1, 1, size=(60, 1)).astype(np.float32)
SIGNAL = 1.0 + X[:, 0]
NOISE = GENERATOR.standard_t(3, size=60)
COUNTS = GENERATOR.poisson(np.exp(SIGNAL))
ORDERED = np.digitize(2 * X[:, 0] + GENERATOR.logistic(size=60), [-1.0, 1.0])


@pytest.mark.parametrize(
    ("likelihood", "y", "observed", "sites"),
    [
        (
            bnn.likelihoods.student_t(dist.LogNormal(1.5, 0.5)),
            (SIGNAL + 0.2 * NOISE).astype(np.float32),
            "StudentT",
            {"noise_df", "noise_scale"},
        ),
        (
            bnn.likelihoods.poisson(),
            COUNTS,
            "Poisson",
            set(),
        ),
        (
            bnn.likelihoods.dirty(bnn.likelihoods.ordinal(3), label_smoothing=0.05),
            ORDERED,
            "DirtyLabels of CategoricalLogits",
            {"cutpoints"},
        ),
    ],
    ids=["student_t", "poisson", "dirty ordinal"],
)
def test_sampled_and_scored(likelihood, y, observed, sites):
    model = bnn.bayesian_network(bnn.nn.MLP((), outputs=1), bnn.priors.normal(), likelihood)
    posterior = bnn.sample(
        NUTS(model),
        X,
        y,
        warmup=150,
        draws=150,
        chains=1,
        seed=1,
        progress=False,
        # What is kept is compiled with the kernel, slowly where samples need a gamma's.
        keep=bnn.Keep(probe=(X, y)) if sites == {"cutpoints"} else None,
    )
    assert posterior.provenance["observed"] == observed
    assert sites <= set(posterior.draws)
    slope = posterior.draws["net.Dense_0.kernel"].ravel()
    assert 0.3 < slope.mean() < 3 and slope.std() > 0.02
    scores = bnn.metrics.evaluate(posterior, X, y, samples=4000)
    if posterior.probe is not None:  # what the run kept is of the clean likelihood, too
        np.testing.assert_allclose(
            posterior.predict().log_prob(y), posterior.predict(X).log_prob(y), atol=1e-4
        )
    unbounded = {"nll_moment_matched"}  # a draw with df below 2 has no variance
    assert all(math.isfinite(v) for name, v in scores.items() if name not in unbounded)
    constant = bnn.metrics.rmse(np.full(60, y.mean()), y)
    better = (
        scores["accuracy"] > 0.5 if scores.task == "classification" else (scores["rmse"] < constant)
    )
    assert better
