"""Every likelihood predicts, scores and tempers through its observed site, in the data's units."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from numpyro import handlers
from numpyro.infer.util import log_density
from scipy import special, stats

import bayesnn_ppl as bnn
from bayesnn_ppl.inference.kernels.common.minibatch_density import MinibatchDensity
from bayesnn_ppl.inference.kernels.common.row_independence import check_rows_independent
from tests.likelihoods.table import CASES, CLASS_WEIGHTS, LEVELS, SMOOTHING, chosen, softmax

CHAINS, DRAWS, ROWS = 2, 4, 12
CENTRE, SCALE = 50.0, 4.0
UNITS = bnn.data.Standardisation(np.zeros(2), np.ones(2), CENTRE, SCALE)


def values(generator, name, shape):
    """Draws of a latent site (CHAINS, DRAWS, *shape), inside its support."""
    found = generator.uniform(0.5, 1.5, size=(CHAINS, DRAWS, *shape))
    if name == "noise_df":
        found = 4 + found  # four moments, for the test of the samples' variance
    return (np.cumsum(found, -1) - 2 if name == "cutpoints" else found).astype(np.float32)


def model_of(case, **settings):
    network = bnn.nn.MLP((), outputs=case.outputs)
    return bnn.bayesian_network(network, bnn.priors.normal(), case.likelihood, **settings)


def find(name):
    return next(case for case in CASES if case.name == name)


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case.name)
def made(request):
    return make(request.param)


def make(case):
    """A posterior of draws made by hand, and its network's outputs written out."""
    generator = np.random.default_rng(8)
    x = generator.normal(size=(ROWS, 2)).astype(np.float32)
    weights = {"net/Dense_0.kernel": (2, case.outputs), "net/Dense_0.bias": (case.outputs,)}
    draws = {
        name: 0.7 * generator.normal(size=(CHAINS, DRAWS, *shape)).astype(np.float32)
        for name, shape in weights.items()
    }
    draws |= {name: values(generator, name, shape) for name, shape in case.sites.items()}
    posterior = bnn.Posterior.from_arrays(
        draws,
        {"lp": np.zeros((CHAINS, DRAWS))},
        {"latents": list(draws), "precision": "float32", "chains": CHAINS},
        model=model_of(case),
        standardisation=UNITS if case.standardised else None,
    )
    flat = {name: v.reshape(-1, *v.shape[2:]).astype(float) for name, v in draws.items()}
    f = x @ flat["net/Dense_0.kernel"] + flat["net/Dense_0.bias"][:, None]
    centre, scale = (CENTRE, SCALE) if case.standardised else (0.0, 1.0)
    return SimpleNamespace(
        case=case,
        posterior=posterior,
        prediction=posterior.predict(x),
        x=x,
        y=case.targets(generator, ROWS),
        f=f,
        p={name: flat[name][:, None] for name in case.sites},
        centre=centre,
        scale=scale,
    )


def test_log_density(made):
    expected = made.case.density(made.f, made.y, made.p)
    expected = expected - np.prod(made.y.shape[1:], dtype=int) * np.log(made.scale)
    found = made.prediction.row_log_likelihood(made.y)
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-4)
    mixture = special.logsumexp(expected, axis=0) - np.log(CHAINS * DRAWS)
    np.testing.assert_allclose(made.prediction.log_prob(made.y), mixture, rtol=2e-4, atol=2e-4)


def test_moments_and_their_parts(made):
    prediction, case = made.prediction, made.case
    if case.probabilities is not None:
        p = case.probabilities(made.f, made.p)
        assert prediction.task == "classification"
        np.testing.assert_allclose(prediction.probabilities, p.mean(0), rtol=1e-3, atol=1e-5)
        np.testing.assert_allclose(prediction.epistemic, p.var(0), rtol=1e-3, atol=1e-6)
        return
    mean, variance = (
        np.broadcast_to(m, made.f.shape[:1] + made.y.shape) for m in case.moments(made.f, made.p)
    )
    assert prediction.task == "regression"
    np.testing.assert_allclose(
        prediction.mean, made.centre + made.scale * mean.mean(0), rtol=1e-4, atol=1e-4
    )
    square = made.scale**2
    np.testing.assert_allclose(prediction.aleatoric, square * variance.mean(0), rtol=1e-3)
    np.testing.assert_allclose(prediction.epistemic, square * mean.var(0), rtol=1e-3)


def test_samples_have_these_moments(made):
    """Forty z-scores below 5.5: a false alarm in 1e-6, with a fixed seed in any case."""
    count = 4000
    samples = made.prediction.samples(count, seed=3)
    assert samples.shape == (count, *made.y.shape)
    if made.case.probabilities is not None:
        samples = samples[..., None] == np.arange(made.prediction.mean.shape[-1])
    spread = np.sqrt(made.prediction.variance / count)
    z = (samples.mean(0) - made.prediction.mean) / spread
    assert np.abs(z).max() < 5.5
    wrong = (samples.mean(0) - made.prediction.mean - 10 * spread) / spread
    assert np.abs(wrong).max() > 5.5
    # The variance of a variance is a fourth moment, which a heavy tail makes large.
    rtol = 0.5 if made.case.name == "log_normal" else 0.3
    np.testing.assert_allclose(samples.var(0), made.prediction.variance, rtol=rtol)


def test_quantiles_invert_the_mixtures_distribution_function(made):
    case = made.case
    if case.probabilities is not None:
        with pytest.raises(ValueError, match="Labels have no quantiles"):
            made.prediction.quantile(0.5)
        return
    exact = case.name != "student_t"  # whose inverse SciPy has and JAX has not
    found = made.prediction.quantile([0.1, 0.5, 0.95])
    for level, value in zip((0.1, 0.5, 0.95), (found - made.centre) / made.scale, strict=True):
        below = case.cdf(made.f, made.p, value).mean(0)
        if np.issubdtype(made.y.dtype, np.integer):
            np.testing.assert_array_equal(value, np.round(value))
            under = case.cdf(made.f, made.p, value - 1).mean(0)
            # Five and a half standard errors of a share of 4 000 samples.
            slack = 5.5 * np.sqrt(level * (1 - level) / 4000)
            assert (below > level - slack).all() and (under < level + slack).all()
        else:
            tolerance = 1e-5 if exact else 5.5 * np.sqrt(level * (1 - level) / 4000)
            np.testing.assert_allclose(below, level, atol=tolerance)


def gradients(made, *models):
    """∇ log density at the first draw, a dictionary by site for each model."""
    names = made.posterior.provenance["site_names"]
    theta = {site: jnp.asarray(made.posterior.draws[n][0, 0]) for n, site in names.items()}

    def densities(theta):
        return [log_density(m, (made.x, made.y), {}, theta)[0] for m in models]

    found = jax.jit(jax.jacrev(densities))(theta)
    return theta, found


def test_the_site_tempers(made):
    """∇ log p(y|θ)^{1/T} p(θ) is that of the prior, −θ for N(0, 1), and 1/T of the likelihood's."""
    tempered = model_of(made.case, temperature=0.25)
    theta, (whole, found) = gradients(made, model_of(made.case), tempered)
    for site in ("net/Dense_0.kernel", "net/Dense_0.bias"):
        likelihood = whole[site] + theta[site]
        np.testing.assert_allclose(found[site] + theta[site], 4 * likelihood, rtol=1e-3, atol=1e-3)
        assert np.abs(likelihood).max() > 1e-2, f"the data say nothing about {site}"


@pytest.mark.parametrize("name", ["student_t", "dirty"])
def test_cold_scales_it_with_the_prior(name):
    made = make(find(name))
    model = model_of(made.case)
    _, (whole, cold) = gradients(made, model, bnn.cold(model, 0.25))
    for site, gradient in whole.items():
        np.testing.assert_allclose(cold[site], 4 * gradient, rtol=1e-4, atol=1e-4, err_msg=site)


def test_minibatches_stand_for_the_rows(made):
    """No operation of a likelihood mixes rows, so that stochastic gradients may use it."""
    names = made.posterior.provenance["site_names"]
    theta = {site: jnp.asarray(made.posterior.draws[n][0, 0]) for n, site in names.items()}
    vector, unravel = ravel_pytree(theta)
    density = MinibatchDensity(model_of(made.case), ROWS, unravel, vector.shape[0])
    check_rows_independent(density, made.x, made.y)


def test_the_dirty_likelihood_trains_by_what_it_says():
    case, generator = find("dirty"), np.random.default_rng(2)
    f, y = generator.normal(size=(6, 3)), case.targets(generator, 6)
    fn = case.likelihood.distribution(jnp.asarray(f))
    target = (1 - SMOOTHING) * np.eye(3)[y] + SMOOTHING / 3
    expected = (np.array(CLASS_WEIGHTS) * target * special.log_softmax(f, -1)).sum(-1)
    np.testing.assert_allclose(fn.log_prob(y), expected, rtol=1e-5)
    np.testing.assert_allclose(fn.base_dist.log_prob(y), chosen(softmax)(f, y, {}), rtol=1e-5)


def test_equal_class_weights_are_a_temperature():
    generator = np.random.default_rng(3)
    f, y = jnp.asarray(generator.normal(size=(5, 2, 1))), generator.integers(0, 2, size=(5, 2))
    clean = bnn.likelihoods.bernoulli(outputs=None)
    dirty = bnn.likelihoods.dirty(clean, class_weights=[4.0, 4.0])
    y = y[..., None]
    np.testing.assert_allclose(
        dirty.distribution(f).log_prob(y), 4 * clean.distribution(f).log_prob(y), rtol=1e-5
    )
    assert dirty.distribution(f).log_prob(y).shape == (5,)


def test_the_quantile_pseudo_likelihood_is_the_quantile_loss():
    generator = np.random.default_rng(4)
    f, y, scale = generator.normal(size=(6, 3)), generator.normal(size=6), np.array([0.5, 1.0, 2.0])
    likelihood = bnn.likelihoods.quantile(tuple(LEVELS))
    fn = likelihood.distribution(jnp.asarray(f), scale=jnp.asarray(scale))
    u = (y[:, None] - f) / scale
    loss = u * (LEVELS - (u < 0))
    expected = (np.log(LEVELS * (1 - LEVELS) / scale) - loss).sum(-1)
    np.testing.assert_allclose(fn.log_prob(y), expected, rtol=1e-5)


@pytest.mark.parametrize("classes", [2, 3])
def test_the_prior_of_cutpoints_is_uniform_on_the_simplex_where_the_network_is_zero(classes):
    """A density (K − 1)! of the probabilities, times the slopes of the sigmoids."""
    likelihood = bnn.likelihoods.ordinal(classes)

    @jax.jit
    def known(cutpoints):
        seeded = handlers.seed(likelihood.sample_parameters, jax.random.key(0))
        prior = handlers.trace(seeded).get_trace()["cutpoints"]["fn"]
        return prior.log_prob(cutpoints)

    for cutpoints in (np.linspace(-1.0, 2.0, classes - 1), np.linspace(0.3, 4.0, classes - 1)):
        expected = special.gammaln(classes) + stats.logistic.logpdf(cutpoints).sum()
        assert known(cutpoints) == pytest.approx(expected, rel=1e-4)


def test_ordinal_labels_far_from_the_cutpoints_keep_their_gradient():
    likelihood = bnn.likelihoods.ordinal(3, cutpoints=[-1.0, 1.0])

    def loss(f):
        fn = likelihood.distribution(f[:, None], **likelihood.sample_parameters())
        return fn.log_prob(jnp.array([1, 0, 2])).sum()

    slope = jax.jit(jax.grad(loss))(jnp.array([60.0, 60.0, -60.0]))
    np.testing.assert_allclose(slope, [-1.0, -1.0, 1.0], atol=1e-4)
