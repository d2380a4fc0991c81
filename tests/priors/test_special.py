"""Priors of one kind each: sequential Bayes, weights of ±1, Jeffreys, sparsity under Laplace."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from numpyro import handlers
from scipy import stats

import bayesnn_ppl as bnn
from bayesnn_ppl import priors
from bayesnn_ppl.priors.common.fitting import distribution_of
from tests.priors.prior_checks import MLP, ROWS, SMALLEST_P, ks_p_value, shapes_of

LINEAR = bnn.nn.MLP((), outputs=1)  # kernel (d, 1), bias (1,)
NOISE = 0.5


def posterior_of(draws):
    """A posterior that holds these draws (chain, draw, ...) and nothing else."""
    attributes = {"latents": list(draws), "chains": 2, "draws": 1000}
    return bnn.Posterior.from_arrays(draws, {}, attributes)


GENERATOR = np.random.default_rng(5)
EARLIER = {
    "net/Dense_0.kernel": 1.0 + 0.3 * GENERATOR.normal(size=(2, 1000, 3, 1)),
    "net/Dense_0.bias": -2.0 + 0.1 * GENERATOR.normal(size=(2, 1000, 1)),
    "noise_scale": np.ones((2, 1000)),
}


@pytest.mark.parametrize("covariance", ["diagonal", "full"])
def test_an_empirical_prior_has_the_moments_of_the_earlier_posterior(covariance):
    draws, generator = dict(EARLIER), np.random.default_rng(9)
    # The chains disagree, which is part of the spread; and weights of a kernel are correlated.
    kernel = draws["net/Dense_0.kernel"] + np.array([0.0, 1.0])[:, None, None, None]
    draws["net/Dense_0.kernel"] = kernel = kernel + 0.5 * generator.normal(size=(2, 1000, 1, 1))
    prior = priors.empirical(posterior_of(draws), covariance=covariance, widen=2.0)
    fn = distribution_of(prior, "Dense_0.kernel", (3, 1))
    assert fn.event_shape == (3, 1)
    flat = kernel.reshape(2000, 3)
    sigma = 4 * np.cov(flat.T, bias=covariance == "diagonal")
    if covariance == "diagonal":
        sigma = np.diag(np.diag(sigma))
    value = np.array([[0.3], [1.0], [2.0]])
    expected = stats.multivariate_normal(flat.mean(0), sigma).logpdf(value[:, 0])
    assert fn.log_prob(value) == pytest.approx(expected, rel=1e-4)
    assert set(shapes_of({"*.bias": dist.Normal(), "*": prior}, LINEAR, ROWS)) == {
        "Dense_0.bias",
        "Dense_0.kernel",
    }


def test_two_halves_one_after_the_other_are_the_whole():
    """Exact in a linear model: the first half's posterior, as a prior, times the second half."""
    generator = np.random.default_rng(6)
    x = np.column_stack([generator.normal(size=(40, 2)), np.ones(40)])
    y = x @ [0.5, -1.0, 0.2] + NOISE * generator.normal(size=40)

    def given(rows, mean, precision):
        updated = precision + x[rows].T @ x[rows] / NOISE**2
        return np.linalg.solve(updated, precision @ mean + x[rows].T @ y[rows] / NOISE**2), updated

    first, second = slice(0, 20), slice(20, 40)
    mean, precision = given(first, np.zeros(3), np.eye(3))
    draws = generator.multivariate_normal(mean, np.linalg.inv(precision), size=(2, 20_000))
    prior = priors.empirical(
        posterior_of({"net/Dense_0.kernel": draws[..., None]}), covariance="full"
    )
    flat = prior("Dense_0.kernel", (3, 1)).base_dist
    found, found_precision = given(second, np.asarray(flat.loc), np.asarray(flat.precision_matrix))
    whole, whole_precision = given(slice(0, 40), np.zeros(3), np.eye(3))
    spread = np.sqrt(np.diag(np.linalg.inv(whole_precision)))
    np.testing.assert_allclose((found - whole) / spread, 0, atol=0.05)
    np.testing.assert_allclose(found_precision, whole_precision, rtol=0.1, atol=2.0)
    # The second half alone is another posterior.
    alone, _ = given(second, np.zeros(3), np.eye(3))
    assert np.max(np.abs(alone - whole) / spread) > 0.3


@pytest.mark.parametrize(
    ("draws", "settings", "sentence"),
    [
        (EARLIER, {"network": "old"}, "has no network `old`: its variables are net.Dense_0.kernel"),
        (EARLIER, {"covariance": "low rank"}, '"diagonal" or "full"'),
        (EARLIER, {"widen": 0.0}, "`widen` must be positive"),
        ({"net/w": np.ones((2, 10, 3))}, {}, "positive variance over the draws: the chains did"),
        ({"net/w": GENERATOR.normal(size=(1, 5, 8))}, {"covariance": "full"}, "8 weights and the"),
    ],
)
def test_an_earlier_posterior_that_makes_no_prior_is_refused(draws, settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        priors.empirical(posterior_of(draws), **settings)


def test_an_earlier_posterior_of_another_network_is_refused():
    prior = priors.empirical(posterior_of(EARLIER))
    with pytest.raises(ValueError, match="no weights for `Dense_1.bias`. Did you mean `Dense_0."):
        shapes_of({"Dense_0.*": dist.Normal(), "*": prior})
    with pytest.raises(ValueError, match=r"`Dense_0.bias` has shape \(1,\), but this network's"):
        shapes_of(prior)
    with pytest.raises(TypeError, match="takes a Posterior"):
        priors.empirical(EARLIER)


def test_a_run_that_kept_moments_makes_a_diagonal_prior_and_no_full_one():
    class Moments:
        has_weights, draws = False, {}
        moments = {"net.w": (np.array([[1.0], [3.0]]), np.array([[4.0], [4.0]]))}

    fn = priors.empirical(Moments())("w", (1,))
    assert float(fn.mean[0]) == pytest.approx(2.0)
    assert float(fn.variance[0]) == pytest.approx(5.0)  # within chains, and between them
    with pytest.raises(ValueError, match="kept no draws of its weights"):
        priors.empirical(Moments(), covariance="full")


def test_relaxed_bits_are_concrete_variables():
    prior = priors.bernoulli_weights(0.3, relaxed_temperature=0.5)
    shapes = {"kernel": (200, 100)}
    seeded = handlers.seed(lambda: prior.function(shapes, None), jax.random.key(0))
    weights = np.asarray(seeded()["kernel"], float)
    logit = lambda p: np.log(p) - np.log1p(-p)  # noqa: E731
    # In single precision some draws are ±1 exactly.
    inside = np.clip((weights + 1) / 2, 1e-7, 1 - 1e-7)
    uniform = stats.logistic(logit(0.3)).cdf(0.5 * logit(inside))
    assert ks_p_value(uniform, stats.uniform().cdf) > SMALLEST_P
    assert (
        ks_p_value(stats.logistic(logit(0.33)).cdf(0.5 * logit(inside)), stats.uniform().cdf) < 1e-8
    )
    assert np.mean(weights > 0) == pytest.approx(0.3, abs=6 * (0.21 / 20_000) ** 0.5)


JEFFREYS_X = np.random.default_rng(2).normal(size=(30, 3))


def test_jeffreys_density_is_the_root_of_the_information():
    prior, generator = priors.jeffreys(JEFFREYS_X), np.random.default_rng(7)
    values = {
        "Dense_0": {"kernel": generator.normal(size=(3, 4)), "bias": generator.normal(size=4)},
        "Dense_1": {"kernel": generator.normal(size=(4, 1)), "bias": np.array([0.3])},
    }
    flat = {f"{m}.{p}": v for m, module in values.items() for p, v in module.items()}

    def log_prior(flat):
        shapes = {name: np.shape(v) for name, v in flat.items()}
        given = handlers.substitute(lambda: prior.function(shapes, None), data=flat)
        return handlers.trace(given).get_trace()["jeffreys"]["fn"].log_factor

    jacobian = jax.jacobian(lambda p: MLP.apply({"params": p}, JEFFREYS_X)[:, 0])(
        jax.tree.map(jnp.asarray, values)
    )
    matrix = np.concatenate([np.reshape(j, (30, -1)) for j in jax.tree.leaves(jacobian)], axis=1)
    _, expected = np.linalg.slogdet(matrix.T.astype(float) @ matrix)
    assert float(log_prior(flat)) == pytest.approx(expected / 2, rel=1e-3)
    gradient = jax.grad(log_prior)({n: jnp.asarray(v, float) for n, v in flat.items()})
    assert all(np.isfinite(g).all() for g in gradient.values())
    # Permuted hidden units and flipped signs are the same function, with the same density.
    turned = {
        "Dense_0.kernel": -flat["Dense_0.kernel"][:, ::-1],
        "Dense_0.bias": -flat["Dense_0.bias"][::-1],
        "Dense_1.kernel": -flat["Dense_1.kernel"][::-1],
        "Dense_1.bias": flat["Dense_1.bias"],
    }
    assert float(log_prior(turned)) == pytest.approx(expected / 2, rel=1e-3)
