"""Variational inference: exact where it can be, and as wrong as theory says where it cannot."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import optax
import pytest
from flax import linen
from numpyro import handlers
from numpyro.infer import Trace_ELBO, autoguide

import bayesnn_ppl as bnn
from bayesnn_ppl.inference.approximations import Variational, inverse_cdf
from bayesnn_ppl.inference.approximations.variational.bounds import variational_bound
from bayesnn_ppl.inference.approximations.variational.initialisation import begin_target
from bayesnn_ppl.inference.training.problem import Problem
from bayesnn_ppl.modeling.contract import inspect_model
from tests.inference.approximations import linear_truth as truth
from tests.marks import checked

OPTIMISATION = {
    "batch_size": None,
    "steps": 8000,
    "learning_rate": 0.02,
    "sigma_init": 0.1,
    "particles": 4,
}
network = bnn.models.mlp(hidden=(3,), likelihood=bnn.likelihoods.gaussian(scale=0.4))


def fitted(approximation, x, y, **options):
    return bnn.fit(approximation, x, y, float64=True, progress=False, **options)


@pytest.fixture(scope="module")
def linear():
    return truth.data()


@pytest.fixture(scope="module")
def full(linear):
    q = Variational(truth.linear(), guide="multivariate_normal", draws=2000, **OPTIMISATION)
    return fitted(q, *linear)


@pytest.fixture(scope="module")
def mean_field(linear):
    return fitted(Variational(truth.linear(), draws=2000, **OPTIMISATION), *linear)


def test_a_full_covariance_is_exact_and_its_elbo_the_log_evidence(full, linear):
    mean, precision = truth.posterior(*linear)
    draws = truth.draws_of(full)
    assert truth.worst_error(draws, mean, np.linalg.inv(precision)) < 4
    assert truth.worst_error(draws, mean, np.diag(1 / np.diag(precision))) > 10
    record = full.provenance["approximation"]
    assert abs(record["elbo"]["mean"] - truth.exact(*linear).log_evidence) < 1e-3
    assert record["elbo"]["standard_error"] < 2e-3
    assert record["pareto_k"] < 0.5
    assert full.diagnose().status == "fitted"
    assert "ELBO" in str(full.diagnose())


def test_a_mean_field_has_its_variances_that_are_too_small(mean_field, linear):
    mean, precision = truth.posterior(*linear)
    narrow = np.diag(1 / np.diag(precision))
    draws = truth.draws_of(mean_field)
    assert truth.worst_error(draws, mean, narrow) < 4
    assert truth.worst_error(draws, mean, np.linalg.inv(precision)) > 10
    lost = 0.5 * (np.log(np.diag(precision)).sum() - np.linalg.slogdet(precision)[1])
    elbo = mean_field.provenance["approximation"]["elbo"]
    expected = truth.exact(*linear).log_evidence - lost
    assert abs(elbo["mean"] - expected) < 4 * elbo["standard_error"]
    assert lost > 20 * elbo["standard_error"]


@pytest.mark.check
@pytest.mark.parametrize(("which", "temperature"), [("tempered", 0.25), ("cold", 3.0)])
def test_a_temperature_counts_once(which, temperature, linear):
    """And once more it would be seen: by the likelihood's share, or by all variances."""
    tempered = which == "tempered"
    model = truth.linear(temperature=temperature) if tempered else truth.linear()
    q = Variational(
        model if tempered else bnn.cold(model, temperature),
        guide="multivariate_normal",
        draws=2000,
        weigh=False,
        **OPTIMISATION,
    )
    draws = truth.draws_of(fitted(q, *linear))

    def error(times):
        share = temperature**-times
        options = {"likelihood": share} if tempered else {"whole": share}
        mean, precision = truth.posterior(*linear, **options)
        return truth.worst_error(draws, mean, np.linalg.inv(precision))

    assert error(1) < 4
    assert error(2) > 10 and error(0) > 10


# One gradient, by hand: the families are given the noise of a step.


def family_of(approximation, x, y):
    """The family that a fit would optimise, where it begins, and the data."""
    summary = inspect_model(approximation.model, x, y)
    problem = Problem(approximation.model, x, y, summary, 0, False, None, False, None)
    begun = begin_target(approximation, problem, learn=False)
    family = approximation._family(problem, begun)
    return family, family.begin(begun.z, begun.psi, x, y), begun


def flat(tree):
    return jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(tree)])


@pytest.mark.parametrize("guide", ["normal", "multivariate_normal"])
def test_minibatches_are_unbiased_because_the_kl_counts_once(guide, regression):
    x, y = regression
    family, first, begun = family_of(
        Variational(network, guide=guide, batch_size=10, sigma_init=0.3), x, y
    )
    noise = jax.tree.map(lambda leaf: leaf[0], family.noise(jax.random.key(1)))
    batches = jnp.arange(len(x)).reshape(4, 10)

    @jax.jit
    def gradients(first):
        def gradient(index):
            return flat(jax.grad(family.loss)(first, noise, x, y, index))

        return gradient(None), jax.vmap(gradient)(batches).mean(0)

    whole, of_batches = gradients(first)
    np.testing.assert_allclose(of_batches, whole, rtol=2e-4, atol=2e-4)
    if guide != "normal":
        return

    def wrong(moments, index):
        """The KL of a minibatch that believes itself to be the data."""
        mean, sd = moments.q[0], jax.nn.softplus(moments.q[1])
        z = begun.target.unflatten(mean + sd * noise.normal[0])
        log_p = begun.target.log_density(
            z, {}, noise.key, jnp.asarray(x)[index], jnp.asarray(y)[index], None
        )
        return -(log_p + jnp.sum(jnp.log(sd))) / len(index)

    slope = jax.jit(lambda index: flat(jax.grad(wrong)(first, index)))
    mistaken = jnp.stack([slope(index) for index in batches]).mean(0)
    assert float(jnp.abs(mistaken - whole).max()) > 0.01


def test_a_guide_of_numpyro_is_fitted_as_numpyro_would(regression):
    x, y = regression
    approximation = Variational(network, guide=autoguide.AutoNormal, batch_size=None)
    family, first, _ = family_of(approximation, x, y)
    key = jax.random.key(5)
    parameters = family._guide_parameters(first.q)
    theirs = Trace_ELBO().loss(key, parameters, network, family.guide, x, y)
    ours = family.loss(first, key, x, y, None) * len(x)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)


@pytest.fixture(scope="module")
def gradient_samples(regression):
    """2 000 gradients of each estimator at one wide q, and of one at another q."""
    x, y = regression
    samples = {}
    for name in ("reparameterised", "local", "flipout", "elsewhere"):
        estimator = "reparameterised" if name == "elsewhere" else name
        sigma = 0.9 if name == "elsewhere" else 0.5
        family, first, _ = family_of(
            Variational(network, estimator=estimator, batch_size=None, sigma_init=sigma), x, y
        )

        @jax.jit
        def draw(keys, family=family, first=first):
            def one(key):
                noise = jax.tree.map(lambda leaf: leaf[0], family.noise(key))
                return flat(jax.grad(family.loss)(first, noise, x, y, None))

            return jax.lax.map(one, keys, batch_size=100)

        samples[name] = np.asarray(draw(jax.random.split(jax.random.key(2), 2000)), float)
    return samples


def worst_difference(first, second):
    """Of the means, in standard errors."""
    error = np.sqrt(first.var(0) / len(first) + second.var(0) / len(second))
    return np.max(np.abs(first.mean(0) - second.mean(0)) / np.maximum(error, 1e-12))


@pytest.mark.parametrize("estimator", ["local", "flipout"])
def test_noise_by_row_has_the_same_expectation_and_less_variance(estimator, gradient_samples):
    plain, by_row = gradient_samples["reparameterised"], gradient_samples[estimator]
    assert worst_difference(plain, by_row) < 4.5  # of 32 components
    assert worst_difference(gradient_samples["elsewhere"], by_row) > 8
    assert by_row.var(0).sum() < 0.7 * plain.var(0).sum()


class Sequences(linen.Module):
    """A convolution over a sequence, then an average: weights meet each row at many places."""

    @linen.compact
    def __call__(self, x):
        x = jnp.tanh(bnn.nn.Conv(2, 3)(x))
        return linen.Dense(1)(x.mean(1))


@pytest.mark.check
def test_a_convolution_draws_one_kernel_for_each_row():
    """Independent noise at each place would average out: the spread of f says that it does not."""
    generator = np.random.default_rng(0)
    x = np.ones((6, 5, 1), np.float32)
    y = generator.normal(size=6).astype(np.float32)
    model = bnn.bayesian_network(
        Sequences(), bnn.priors.normal(1.0), bnn.likelihoods.gaussian(scale=1.0)
    )
    losses = {}
    for estimator in ("reparameterised", "local"):
        family, first, _ = family_of(
            Variational(model, estimator=estimator, batch_size=None, sigma_init=0.7), x, y
        )

        @jax.jit
        def draw(keys, family=family, first=first):
            def one(key):
                noise = jax.tree.map(lambda leaf: leaf[0], family.noise(key))
                return family.loss(first, noise, x, y, None)

            return jax.lax.map(one, keys, batch_size=500)

        losses[estimator] = np.asarray(draw(jax.random.split(jax.random.key(3), 3000)), float)
    plain, by_row = losses["reparameterised"], losses["local"]
    error = np.sqrt(plain.var() / len(plain) + by_row.var() / len(by_row))
    assert abs(plain.mean() - by_row.mean()) < 4 * error
    assert by_row.var() < plain.var()


def test_layers_without_latent_kernels_are_told():
    def by_hand(x, y=None, *, batch_size=None):
        weight = numpyro.sample("weight", dist.Normal(0, 1).expand([2]).to_event(1))
        with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
            x, y = bnn.minibatch(x, y)
            numpyro.sample("y", dist.Normal(x @ weight, 1.0), obs=y)

    with pytest.raises(ValueError, match="found no layer"):
        bnn.fit(
            Variational(by_hand, estimator="flipout"), np.ones((5, 2)), np.ones(5), progress=False
        )


# Rényi's bound, Pareto k, and q by its inverse distribution function.


def test_renyi_goes_from_the_importance_weighted_bound_to_the_elbo():
    weights = np.random.default_rng(0).normal(size=50)
    elbo = float(variational_bound(weights, None))
    for alpha in (1 - 1e-3, 1 + 1e-3):
        assert abs(float(variational_bound(weights, alpha)) - elbo) < 2e-3
    assert float(variational_bound(weights, 0.5)) > elbo + 0.1
    np.testing.assert_allclose(
        variational_bound(weights, 0.0), np.log(np.exp(weights).mean()), rtol=1e-5
    )


@pytest.mark.check
def test_renyi_of_a_mean_field_is_wider_than_the_elbo_of_it(mean_field, linear):
    """α < 1 charges less for mass where the posterior has none."""
    options = OPTIMISATION | {"particles": 16, "renyi_alpha": 0.0}
    wide = fitted(Variational(truth.linear(), draws=2000, **options), *linear)
    ratio = truth.draws_of(wide).var(0) / truth.draws_of(mean_field).var(0)
    assert ratio.min() > 1.2


def test_pareto_k_tells_a_poor_q_from_an_exact_one(full, linear):
    x, y = linear
    twins = np.column_stack([x[:, 0], x[:, 0] + 0.01 * x[:, 1]])
    poor = fitted(Variational(truth.linear(), draws=2000, **OPTIMISATION), twins, y)
    assert full.provenance["approximation"]["pareto_k"] < 0.5
    assert poor.provenance["approximation"]["pareto_k"] > 0.7
    found = poor.diagnose()
    assert found.status == "doubtful" and "richer guide" in found.verdict


def test_a_family_by_its_inverse_cdf_holds_a_posterior_that_no_normal_can():
    """Under next to no data the posterior is the prior, here of the family itself."""

    def model(x, y=None, *, batch_size=None):
        prior = dist.Laplace(1.0, 0.5).expand([3]).to_event(1)
        weight = numpyro.sample("weight", prior)
        with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
            x, y = bnn.minibatch(x, y)
            numpyro.sample("y", dist.Normal(x @ weight, 1e6), obs=y)

    x, y = np.ones((5, 3)), np.zeros(5)
    options = OPTIMISATION | {"draws": 500, "start": "prior", "particles": 8}
    evidence = 5 * float(dist.Normal(0.0, 1e6).log_prob(0.0))
    own = fitted(Variational(model, guide=inverse_cdf(dist.Laplace), **options), x, y)
    elbo = own.provenance["approximation"]["elbo"]
    assert abs(elbo["mean"] - evidence) < 4e-3
    normal = fitted(Variational(model, **options), x, y).provenance["approximation"]["elbo"]
    assert normal["mean"] < evidence - 0.03
    assert abs(np.median(own.draws["weight"]) - 1.0) < 0.1


@pytest.mark.parametrize(
    ("family", "options", "error", "words"),
    [
        ("laplace", {}, TypeError, "class of NumPyro"),
        (dist.Gamma, {}, ValueError, "`loc` and `scale`"),
        (dist.HalfNormal, {}, ValueError, "`loc` and `scale`"),
        (dist.StudentT, {}, ValueError, "give them all"),
        (dist.StudentT, {"df": -1.0}, ValueError, "df"),
        (dist.StudentT, {"df": "5"}, TypeError, "number"),
        (dist.Laplace, {"df": 5.0}, ValueError, "no settings"),
        (dist.StudentT, {"learned": ("df",)}, ValueError, "first value"),
    ],
)
def test_families_that_are_none_are_refused(family, options, error, words):
    with pytest.raises(error, match=words):
        inverse_cdf(family, **options)


# Every guide, on a small network.

GUIDES = {
    "low_rank": {"guide": "low_rank", "rank": 2},
    "iaf": {"guide": "iaf", "weigh": False},
    "bnaf": {"guide": "bnaf", "weigh": False},
    "dais": {"guide": "dais"},
    "laplace": {"guide": "laplace", "steps": 1500, "learning_rate": 0.02},
    "mixed": {"guide": {"*.kernel": inverse_cdf(dist.Logistic), "*": autoguide.AutoDiagonalNormal}},
}


@pytest.mark.parametrize("name", checked(GUIDES, "low_rank", "mixed"))
def test_a_guide_is_fitted(name, regression):
    x, y = regression
    settings = {"steps": 400, "learning_rate": 0.01, "draws": 50, "batch_size": None}
    found = bnn.fit(Variational(network, **(settings | GUIDES[name])), x, y, progress=False)
    record = found.provenance["approximation"]
    (losses,) = record["losses"]
    assert losses[-1] < losses[0] - 0.1
    assert found.draws["net.Dense_0.kernel"].shape == (1, 50, 2, 3)
    assert found.draws["net.Dense_0.kernel"].std(1).min() > 1e-4
    assert "elbo" not in record or np.isfinite(record["elbo"]["mean"])
    json.dumps(found.provenance, allow_nan=False)


def test_layers_of_a_mapping_are_correlated_within_and_not_between(linear):
    """On the linear model with a group of kernel and one of bias, each is exact given the other."""
    guide = {"*.kernel": "multivariate_normal", "*": "normal"}
    found = fitted(Variational(truth.linear(), guide=guide, draws=2000, **OPTIMISATION), *linear)
    mean, precision = truth.posterior(*linear)
    covariance = np.zeros((3, 3))
    covariance[:2, :2] = np.linalg.inv(precision[:2, :2])
    covariance[2, 2] = 1 / precision[2, 2]
    assert truth.worst_error(truth.draws_of(found), mean, covariance) < 4


def test_means_begin_at_a_mode_or_a_posterior(regression):
    """With next to no steps the draws are where they began."""
    x, y = regression
    quick = bnn.approximations.MAP(network, epochs=200, learning_rate=0.02)
    mode = bnn.fit(quick, x, y, progress=False, seed=4)
    settings = {"steps": 1, "sigma_init": 1e-4, "draws": 20, "learning_rate": 1e-6}
    for begun in (bnn.approximations.MAP(epochs=200, learning_rate=0.02), mode):
        q = bnn.fit(Variational(network, mode=begun, **settings), x, y, progress=False, seed=4)
        for name, array in mode.draws.items():
            np.testing.assert_allclose(q.draws[name].mean(1), array[:, 0], atol=1e-3)
    wider = bnn.models.mlp(hidden=(5,), likelihood=bnn.likelihoods.gaussian(scale=0.4))
    with pytest.raises(ValueError, match="which has shape .* in this model"):
        bnn.fit(Variational(wider, mode=mode), x, y, progress=False)


# Non-convergence is told.


def test_an_optimisation_that_is_too_short_says_so(regression):
    slow = Variational(network, steps=400, learning_rate=1e-3, schedule=None, draws=30)
    assert "still rising" in bnn.fit(slow, *regression, progress=False).diagnose().verdict
    few = Variational(network, steps=20, draws=30)
    assert "too few" in bnn.fit(few, *regression, progress=False).diagnose().verdict
    long = Variational(network, steps=4000, learning_rate=0.02, draws=30)
    verdict = bnn.fit(long, *regression, progress=False).diagnose().verdict
    assert "rising" not in verdict and "few" not in verdict


def test_an_optimisation_that_overflows_says_where(regression):
    wild = Variational(network, optimiser=optax.sgd(1e30), steps=200, draws=30)
    found = bnn.fit(wild, *regression, progress=False)
    assert all(np.isfinite(array).all() for array in found.draws.values())
    verdict = found.diagnose()
    assert verdict.status == "not converged" and "not finite in step" in verdict.verdict


def test_a_curvature_that_is_not_positive_is_told(regression):
    """After one step a network is nowhere near a mode."""
    short = Variational(network, guide="laplace", steps=1, draws=30, start="prior")
    found = bnn.fit(short, *regression, progress=False, seed=1).diagnose()
    assert found.status == "not converged" and "curvature is not positive" in found.verdict


def test_a_second_fit_compiles_nothing_and_a_seed_repeats_it(regression, compilations):
    settings = {"steps": 100, "draws": 20}
    first = bnn.fit(Variational(network, **settings), *regression, progress=False, seed=1)
    before = compilations()
    again = bnn.fit(Variational(network, **settings), *regression, progress=False, seed=1)
    assert compilations() == before
    for name, array in first.draws.items():
        np.testing.assert_array_equal(again.draws[name], array)
    other = bnn.fit(Variational(network, **settings), *regression, progress=False, seed=2)
    assert not np.array_equal(other.draws["net.Dense_0.bias"], first.draws["net.Dense_0.bias"])


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"guide": "normals"}, ValueError, "Did you mean `normal`"),
        ({"guide": 3}, TypeError, "AutoGuide"),
        ({"guide": autoguide.AutoDelta}, ValueError, "MAP"),
        ({"guide": autoguide.AutoDelta(lambda x, y: None)}, ValueError, "MAP"),
        ({"guide": {}}, ValueError, "empty"),
        ({"guide": {"*": "dais"}}, ValueError, "all sites at once"),
        ({"guide": {"Dense_0.*": "normal"}}, ValueError, "matches no pattern"),
        ({"guide": {"*": "normal", "Dense_9.*": "normal"}}, ValueError, "no site"),
        ({"guide": "dais", "batch_size": 10}, ValueError, "batch_size=None"),
        ({"guide": "laplace", "sigma_init": 0.1}, ValueError, "would be ignored"),
        ({"guide": autoguide.AutoIAFNormal, "sigma_init": 0.1}, ValueError, "would be ignored"),
        ({"estimator": "rows"}, ValueError, "estimator"),
        ({"estimator": "local", "guide": "low_rank"}, ValueError, "mean field"),
        ({"estimator": "local", "renyi_alpha": 0.5, "particles": 4}, ValueError, "Rényi"),
        ({"renyi_alpha": 0.5}, ValueError, "particles=2"),
        ({"renyi_alpha": -1.0, "particles": 4}, ValueError, "at least 0"),
        ({"steps": 10, "epochs": 10}, ValueError, "not both"),
        ({"steps": 0}, ValueError, "steps"),
        ({"draws": 0}, ValueError, "draws"),
        ({"rank": 3}, ValueError, "low_rank"),
        ({"sigma_init": -1.0}, ValueError, "sigma_init"),
        ({"optimiser": optax.sgd}, TypeError, "Call it"),
        ({"optimiser": optax.sgd(0.1), "learning_rate": 0.1}, ValueError, "ignored"),
        ({"mode": "map"}, TypeError, "mode"),
        ({"mode": bnn.approximations.MAP(), "start": "prior"}, ValueError, "ignored"),
    ],
)
def test_bad_settings_are_refused_in_a_sentence(options, error, words, regression):
    with pytest.raises(error, match=words):
        bnn.fit(Variational(network, **options), *regression, progress=False)


def test_a_guide_of_the_callers_own(regression):
    guide = autoguide.AutoNormal(network, init_scale=0.05)
    q = Variational(network, guide=guide, steps=200, draws=30, weigh=False)
    assert bnn.fit(q, *regression, progress=False).draws["net.Dense_0.bias"].shape == (1, 30, 3)
    with pytest.raises(ValueError, match="its own `init_loc_fn`"):
        Variational(network, guide=guide, sigma_init=0.1)


def simplex(x, y=None, *, batch_size=None):
    """Two sites: one whose unconstrained shape is another, and a scale."""
    weights = numpyro.sample("weights", dist.Dirichlet(jnp.ones(x.shape[1])))
    scale = numpyro.sample("scale", dist.HalfNormal(1.0))
    with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
        x, y = bnn.minibatch(x, y)
        numpyro.sample("y", dist.Normal(x @ weights, scale), obs=y)


def wide(x, y=None, *, batch_size=None):
    return simplex(jnp.concatenate([x, x], axis=1), y, batch_size=batch_size)


def larger(x, y=None, *, batch_size=None):
    numpyro.sample("offset", dist.Normal(0, 1))
    return simplex(x, y, batch_size=batch_size)


def listed(*sites):
    guide = autoguide.AutoGuideList(simplex)
    for site in sites:
        hidden = handlers.block(handlers.seed(simplex, jax.random.key(0)), expose=[site])
        guide.append(autoguide.AutoNormal(hidden, prefix=site))
    return guide


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: autoguide.AutoNormal(handlers.block(simplex, hide=["scale"])),
            r"AutoNormal does not sample the latent sites \['scale'\].*draws of the prior",
        ),
        (lambda: listed("weights"), r"AutoGuideList does not sample the latent sites \['scale'\]"),
        (lambda: autoguide.AutoNormal(network), r"latent sites \['scale', 'weights'\]"),
        (lambda: autoguide.AutoNormal(larger), r"samples \['offset'\], which the model does not"),
        (
            lambda: autoguide.AutoNormal(wide),
            r"`weights` with the unconstrained shape \(3,\).*\(1,\)",
        ),
    ],
)
def test_a_guide_of_other_sites_than_the_models_is_refused(make, words, regression):
    """A site that no guide samples would be drawn from the prior, and nothing would say so."""
    with pytest.raises(ValueError, match=words):
        q = Variational(simplex, guide=make(), steps=10, draws=10)
        bnn.fit(q, *regression, progress=False)


@pytest.mark.parametrize(
    "make",
    [
        lambda: autoguide.AutoMultivariateNormal(simplex),
        lambda: autoguide.AutoNormal(simplex),
        lambda: listed("weights", "scale"),
        lambda: autoguide.AutoDAIS(simplex, K=2),
    ],
)
def test_a_guide_of_the_same_sites_is_taken(make, regression):
    q = Variational(simplex, guide=make(), batch_size=None, steps=10, draws=10)
    assert bnn.fit(q, *regression, progress=False).draws["weights"].shape == (1, 10, 2)
