"""Every prior under NUTS, under stochastic gradients and in a prior predictive check.

One model holds them all, a family for each parameter or group of parameters, so that each pair
of a family and what is done with it occurs, with few compilations.
"""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from flax import linen
from jax.flatten_util import ravel_pytree
from numpyro import handlers
from numpyro.infer import NUTS
from numpyro.infer.util import potential_energy, unconstrain_fn
from scipy import stats

import bayesnn_ppl as bnn
from bayesnn_ppl import priors
from bayesnn_ppl.diagnostics import prior_predictive
from bayesnn_ppl.inference.kernels.common.minibatch_density import MinibatchDensity
from tests.priors.prior_checks import SMALLEST_P

SHAPES = {"Conv_0": (2, 2, 1, 2), "LSTM_0": (2, 8)} | {f"Dense_{i}": (2, 2) for i in range(12)}


class Layer(linen.Module):
    """A kernel and a bias of the shapes that a layer of this name has."""

    shape: tuple[int, ...]

    @linen.compact
    def __call__(self):
        kernel = self.param("kernel", linen.initializers.ones, self.shape)
        return jnp.ravel(kernel), self.param("bias", linen.initializers.ones, self.shape[-1:])


class Features(linen.Module):
    """f(x) = Σ_j w_j cos(j x), over all weights of all layers: little to compile."""

    @linen.compact
    def __call__(self, x):
        weights = [w for name, shape in SHAPES.items() for w in Layer(shape, name=name)()]
        weights = jnp.concatenate(weights)
        return jnp.cos(x[:, :1] * jnp.arange(len(weights))) @ weights[:, None] / 5


class Earlier:
    """The moments of a run on a network with one parameter of interest."""

    has_weights, draws = False, {}
    moments = {"net.Dense_11.bias": (np.array([[0.5, -0.5]]), np.array([[0.3, 0.1]]))}


def covariance(name, shape):
    return np.eye(int(np.prod(shape))) + 0.1


def of(family, *arguments, **settings):
    return family, getattr(priors, family)(*arguments, **settings)


TABLE = {
    "Conv_0.kernel": of("correlated_filters"),
    "Conv_0.bias": of("bnn_hmc", 5),
    "LSTM_0.kernel": of("lstm_gates", forget=dist.Normal(1.0, 0.5), fan_in=True),
    "LSTM_0.bias": of("cold_posterior_bnn"),
    "Dense_0.kernel": of("multivariate_normal", covariance),
    "Dense_0.bias": of("laplace", 0.5),
    "Dense_1.kernel": of("kronecker_normal", column=np.eye(2) + 0.2),
    "Dense_1.bias": of("student_t", 3.0),
    "Dense_2.kernel": of("he_normal"),
    "Dense_2.bias": of("logistic", 0.3),
    "Dense_3.kernel": of("glorot_normal"),
    "Dense_3.bias": of("cauchy", 0.3),
    "Dense_4.kernel": of("fan_in_normal"),
    "Dense_4.bias": of("generalised_normal", 1.5),
    "Dense_5.kernel": of("spike_and_slab"),
    "Dense_5.bias": of("constrained", dist.HalfNormal(1.0)),
    "Dense_6.*": of("horseshoe", fan_in=True),
    "Dense_7.kernel": of("hierarchical", over="input", centred=False),
    "Dense_7.bias": of("normal", 0.5),
    "Dense_8.*": of("joint_normal", lambda shapes: np.eye(6) + 0.1),
    "Dense_9.*": of("regularised_horseshoe", over="layer"),
    "Dense_10.kernel": of("bernoulli_weights", relaxed_temperature=0.5),
    "Dense_10.bias": (
        "inverse_gamma_scale",
        priors.hierarchical(
            priors.inverse_gamma_scale(3.0, 2.0), over="weight", centred=True, name="tail"
        ),
    ),
    "Dense_11.kernel": of("normal_mixture", (0.3, 0.7), (1.0, 0.1)),
    "Dense_11.bias": ("empirical", priors.empirical(Earlier())),
}
MODEL = bnn.bayesian_network(
    Features(), {name: prior for name, (_, prior) in TABLE.items()}, bnn.likelihoods.gaussian(0.5)
)
RNG = np.random.default_rng(3)
X, Y = RNG.normal(size=(6, 1)).astype(np.float32), RNG.normal(size=6).astype(np.float32)


def quickly(function, *arguments):
    """Compiled without optimisation: it runs once."""
    options = {"xla_backend_optimization_level": 0}
    return jax.jit(function).lower(*arguments).compile(compiler_options=options)


def test_every_family_is_in_the_model_or_elsewhere():
    covered = {family for family, _ in TABLE.values()}
    # Jeffreys's is below; groups of `residual_blocks` are names for `hierarchical`; no kernel moves
    # what `learned_normal` has besides weights, or weights that are known or fitted.
    covered |= {"by_name", "fixed", "jeffreys", "learned", "learned_normal", "residual_blocks"}
    assert covered == set(priors.__all__) - {"GeneralisedNormal", "NetworkPrior", "Prior"}


def run(kernel, draws):
    posterior = bnn.sample(kernel, X, Y, warmup=10, draws=draws, chains=1, progress=False)
    for name, values in posterior.draws.items():
        assert np.isfinite(values).all(), name
        assert (values[:, 0] != values[:, -1]).all(), name  # every element has moved
    parameters = {f"net.{name}.{p}" for name in SHAPES for p in ("kernel", "bias")}
    assert parameters <= set(posterior.draws)
    return posterior


def last_draw(posterior):
    """Its unconstrained latent sites."""
    names = {site: name for name, site in posterior.provenance["site_names"].items()}
    latents = posterior.provenance["latents"]
    values = {site: posterior.draws[names[site]][0, -1] for site in latents}
    return unconstrain_fn(MODEL, (X, Y), {}, values)


def test_nuts():
    posterior = run(NUTS(MODEL, max_tree_depth=4), draws=10)
    # The density that it followed is the model's, the Jacobians of scales included.
    expected = -potential_energy(MODEL, (X, Y), {}, last_draw(posterior))
    assert posterior.statistics["lp"][0, -1] == pytest.approx(float(expected), rel=1e-4)


@pytest.mark.check
def test_stochastic_gradients():
    """The kernel runs, and gradients of its minibatches are unbiased: no prior counts N/B times."""
    kernel = bnn.kernels.SGHMC(MODEL, step_size=1e-6, batch_size=2, momentum_decay=0.9)
    vector, unravel = ravel_pytree(last_draw(run(kernel, draws=4)))
    density = MinibatchDensity(MODEL, len(X), unravel, len(vector))
    parts = [(X[i : i + 2], Y[i : i + 2]) for i in (0, 2, 4)]
    of_part = quickly(jax.grad(density.potential), vector, *parts[0])
    found = np.array([of_part(vector, *part) for part in parts], float)
    whole = quickly(jax.grad(lambda v: potential_energy(MODEL, (X, Y), {}, unravel(v))), vector)
    expected = np.asarray(whole(vector), float)
    size = np.abs(expected).max()
    np.testing.assert_allclose(found.mean(axis=0), expected, rtol=1e-3, atol=1e-4 * size)
    assert np.abs(found[0] - expected).max() > 1e-2 * size  # the parts are not the whole


def test_prior_predictive():
    """Functions are those of the model run forward by NumPyro; twice as large are not."""
    found = prior_predictive(MODEL, X, draws=1500)
    assert found.broken == 0 and found.status in ("varied", "rough")

    def forward(key, x):
        return handlers.trace(handlers.seed(MODEL, key)).get_trace(x)["y"]["fn"].mean

    keys = jax.random.split(jax.random.key(1), 1500)
    expected = np.asarray(quickly(jax.vmap(forward, (0, None)), keys, X)(keys, X))
    for row in (0, 3):
        drawn = found.functions[:, row]
        assert stats.ks_2samp(drawn, expected[:, row]).pvalue > SMALLEST_P
        assert stats.ks_2samp(2 * drawn, expected[:, row]).pvalue < SMALLEST_P


def test_jeffreys_prior_has_a_posterior_and_no_predictions_before_it():
    x = np.random.default_rng(2).normal(size=(30, 1)).astype(np.float32)
    y = np.sin(2 * x[:, 0])
    model = bnn.bayesian_network(
        bnn.nn.MLP((2,), outputs=1), priors.jeffreys(x), bnn.likelihoods.gaussian(0.3)
    )
    posterior = bnn.sample(
        NUTS(model, max_tree_depth=4), x, y, warmup=10, draws=10, chains=1, progress=False
    )
    for values in posterior.draws.values():
        assert np.isfinite(values).all() and (values[:, 0] != values[:, -1]).all()
    with pytest.raises(ValueError, match="prior"):
        prior_predictive(model, x, draws=5)
