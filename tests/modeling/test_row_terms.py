"""Models that say more of a row than p(y|θ): other observed sites, factors, and weights."""

from contextlib import nullcontext

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro import handlers

import bayesnn_ppl as bnn
from bayesnn_ppl.inference.approximations import Laplace, NaturalGradient
from bayesnn_ppl.modeling.contract import inspect_model

NOISE = 0.3


def linear(row=None, outside=None, around=lambda x: nullcontext()):
    """Two slopes; `row(x, w, y)` and `outside(w)` add sites, `around(x)` is about the rows."""

    def model(x, y=None, *, batch_size=None):
        w = numpyro.sample("w", dist.Normal(0, 1).expand([2]).to_event(1))
        if outside is not None:
            outside(w)
        with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
            x, y = bnn.minibatch(x, y)
            with around(x):
                numpyro.sample("y", dist.Normal(x @ w, NOISE), obs=y)
            if row is not None:
                row(x, w, y)

    return model


def second(x, w, y):
    numpyro.sample("z", dist.Normal(x @ w, 0.1), obs=None if y is None else y + 0.0)


def factor(x, w, y):
    if y is not None:
        numpyro.factor("extra", -0.5 * (y - x @ w) ** 2)


def constraint(w):
    numpyro.sample("c", dist.Normal(w, 0.1).to_event(1), obs=jnp.zeros(2))


def times_three(x):
    return handlers.scale(scale=3.0)


def by_input(x):
    return handlers.scale(scale=jnp.exp(x[:, 1]))


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 2)).astype(np.float32)
    return x, (x @ [1.0, -0.5] + NOISE * rng.normal(size=40)).astype(np.float32)


def summary(model, rows):
    found = inspect_model(model, *rows)
    return found.weighted, found.row_terms, found.other_observed


def test_a_summary_says_what_else_there_is(rows):
    assert summary(linear(), rows) == (False, (), ())
    assert summary(linear(second), rows) == (False, ("z",), ())
    assert summary(linear(factor, constraint), rows) == (False, ("extra",), ("c",))
    assert summary(linear(around=times_three), rows) == (True, (), ())
    assert summary(linear(around=by_input), rows) == (True, (), ())
    # Temperatures are no weights of rows, and a library's own factors no other data.
    assert summary(linear(around=lambda x: bnn.tempered(0.5)), rows) == (False, (), ())
    assert summary(bnn.cold(linear(), 0.1), rows) == (False, (), ())
    horseshoe = bnn.models.mlp(hidden=(3,), prior=bnn.priors.horseshoe())
    assert summary(horseshoe, rows) == (False, (), ())


@pytest.mark.parametrize(
    ("model", "name"),
    [(linear(second), "z"), (linear(factor), "extra"), (linear(outside=constraint), "c")],
)
def test_a_curvature_of_y_alone_is_refused(rows, model, name):
    with pytest.raises(ValueError, match=rf"observes more than `y`: \['{name}'\].*Variational"):
        bnn.fit(Laplace(model), *rows, progress=False)


@pytest.mark.parametrize("row", [second, factor])
def test_natural_gradients_of_y_alone_are_refused(rows, row):
    with pytest.raises(ValueError, match="The density of a row has more than the site `y`"):
        bnn.fit(NaturalGradient(linear(row)), *rows, progress=False)


def test_natural_gradients_weigh_rows(rows):
    """Fisher information Σ wᵢ xᵢ² / σ² of mean field; the first row has a weight of 0.02."""
    x, y = rows
    x = np.concatenate([[[0.5, -4.0]], x]).astype(np.float32)
    y = np.concatenate([[0.0], y]).astype(np.float32)
    model = linear(around=by_input)
    approximation = NaturalGradient(model, method="noisy_adam", draws=2000)
    fitted = bnn.fit(approximation, x, y, progress=False)
    precision = 1 + np.sum(np.exp(x[:, 1:]) * x**2, axis=0) / NOISE**2
    np.testing.assert_allclose(fitted.draws["w"].std((0, 1)), precision**-0.5, rtol=0.2)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (linear(second), r"more than the site `y`: \['z'\]"),
        (linear(around=times_three), "are weighted"),
    ],
)
def test_leave_one_out_is_refused_where_its_weights_would_be_wrong(rows, model, words):
    kernel = bnn.kernels.HMC(model, num_leapfrogs=5)
    run = bnn.sample(kernel, *rows, warmup=50, draws=50, chains=2, progress=False)
    with pytest.raises(ValueError, match=rf"{words}.*k_fold"):
        bnn.metrics.loo(run)
    with pytest.warns(UserWarning, match="ArviZ's leave-one-out would be wrong"):
        run.with_groups("log_likelihood")


def test_masked_rows_count_in_no_score(rows):
    """Half of the rows say nothing, so scores are those of the others, from memory or recorded."""
    x, y = rows
    model = linear(around=lambda x: handlers.mask(mask=x[:, 0] > 0))
    kernel = bnn.kernels.HMC(model, num_leapfrogs=5)
    how = {"warmup": 50, "draws": 50, "chains": 2, "progress": False}
    run = bnn.sample(kernel, x, y, keep=bnn.Keep(probe=(x, y)), **how)
    known = x[:, 0] > 0
    assert 10 < known.sum() < 30
    expected = bnn.metrics.evaluate(run, x[known], y[known])
    for scores in (bnn.metrics.evaluate(run, x, y), bnn.metrics.evaluate(run)):
        for name in ("rmse", "nll_mixture", "nll_moment_matched"):
            assert scores[name] == pytest.approx(expected[name], rel=1e-4), name
    compared = bnn.metrics.compare({"a": run, "b": run}, x, y, diagnose=False)
    assert compared.rows == known.sum()
    assert compared.lines["a"]["nll"] == pytest.approx(expected["nll_mixture"], rel=1e-4)
