"""Temperatures, the network primitives, and what they refuse."""

import flax.linen
import flax.nnx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro import handlers
from numpyro.infer.util import log_density, potential_energy

import bayesnn_ppl as bnn
from bayesnn_ppl.modeling.network_initialisers import initialised_sites
from tests.inference.kernels.known_moments import scale_model

RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 3))
Y = RNG.normal(size=12)


def parameters(model, seed):
    """One draw of the latent sites from the prior, and their names."""
    trace = handlers.trace(handlers.seed(model, jax.random.key(seed))).get_trace(X, Y)
    return {
        name: site["value"]
        for name, site in trace.items()
        if site["type"] == "sample" and not site["is_observed"]
    }


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_cold_equals_tempered_with_a_rescaled_prior(temperature):
    """METHODS: whole-posterior T with N(0, s²) is likelihood T with N(0, s² T)."""
    with jax.enable_x64(True):
        network = bnn.nn.MLP((4,), outputs=1)
        likelihood = bnn.likelihoods.gaussian(0.3)
        cold = bnn.cold(
            bnn.bayesian_network(network, bnn.priors.normal(0.7), likelihood), temperature
        )
        tempered = bnn.bayesian_network(
            network,
            bnn.priors.normal(0.7 * float(np.sqrt(temperature))),
            likelihood,
            temperature=temperature,
        )
        points = [parameters(cold, seed) for seed in range(4)]
        energies = {}
        gradients = {}
        for name, model in {"cold": cold, "tempered": tempered}.items():
            energy = jax.jit(
                jax.value_and_grad(lambda z, m=model: potential_energy(m, (X, Y), {}, z))
            )
            values = [energy(z) for z in points]
            energies[name] = np.array([v for v, _ in values])
            gradients[name] = [jax.flatten_util.ravel_pytree(g)[0] for _, g in values]
        for a, b in zip(gradients["cold"], gradients["tempered"], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5)
        np.testing.assert_allclose(
            np.diff(energies["cold"]), np.diff(energies["tempered"]), rtol=1e-5
        )
        # The values themselves differ, by a constant.
        assert abs(energies["cold"][0] - energies["tempered"][0]) > 1e-3


def test_cold_leaves_the_jacobian_alone():
    """The density of log(scale) is [p(y|s) p(s)]^{1/T} · s: only the bracket is tempered."""
    temperature = 0.25
    y = np.array([0.5, -1.0, 2.0])
    s = 1.7
    joint = dist.HalfNormal(1.0).log_prob(s) + dist.Normal(0, s).log_prob(y).sum()
    expected = joint / temperature + jnp.log(s)
    energy = potential_energy(
        bnn.cold(scale_model, temperature), (y[:, None], y), {}, {"scale": jnp.log(s)}
    )
    np.testing.assert_allclose(-energy, expected, rtol=1e-5)
    # The negative control: NumPyro's scale handler tempers the Jacobian too.
    plain = potential_energy(
        handlers.scale(scale_model, 1 / temperature), (y[:, None], y), {}, {"scale": jnp.log(s)}
    )
    assert abs(float(-plain - expected)) > 0.5


def test_cold_leaves_the_jacobian_of_a_scoped_site_alone():
    def hierarchical(name, shape):
        scale = numpyro.sample(f"{name}.scale", dist.HalfNormal(1.0))
        return dist.Normal(0.0, scale)

    model = bnn.bayesian_network(
        bnn.nn.MLP((), outputs=1), hierarchical, bnn.likelihoods.gaussian(1.0)
    )
    values = parameters(model, 0)
    z = {n: jnp.log(v) if n.endswith(".scale") else v for n, v in values.items()}
    jacobian = sum(jnp.log(v) for n, v in values.items() if n.endswith(".scale"))
    joint, _ = log_density(model, (X, Y), {}, values)
    energy = potential_energy(bnn.cold(model, 0.5), (X, Y), {}, z)
    np.testing.assert_allclose(-energy, 2 * joint + jacobian, rtol=1e-5)


def jacobian_of_a(x, y=None, *, batch_size=None):
    """A model with a factor whose name looks like NumPyro's Jacobians, and is none."""
    a = numpyro.sample("a", dist.HalfNormal(1.0))
    numpyro.factor("flow_a_log_det", -a)
    with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
        x, y = bnn.minibatch(x, y)
        numpyro.sample("y", dist.Normal(0.0, a), obs=y)


def test_cold_knows_jacobians_from_factors_and_under_scopes():
    y, a = np.array([0.3, -1.2]), 0.7
    joint = dist.Normal(0, a).log_prob(y).sum() + dist.HalfNormal(1.0).log_prob(a) - a
    expected = joint / 0.25 + jnp.log(a)
    cold = bnn.cold(jacobian_of_a, 0.25)
    energy = potential_energy(cold, (y[:, None], y), {}, {"a": jnp.log(a)})
    np.testing.assert_allclose(-energy, expected, rtol=1e-5)
    scoped = handlers.scope(cold, prefix="m")
    energy = potential_energy(scoped, (y[:, None], y), {}, {"m/a": jnp.log(a)})
    np.testing.assert_allclose(-energy, expected, rtol=1e-5)


def test_tempered_scales_the_likelihood_only():
    model = bnn.models.linear(likelihood=bnn.likelihoods.gaussian(0.3))
    tempered = bnn.models.linear(likelihood=bnn.likelihoods.gaussian(0.3), temperature=0.5)
    values = parameters(model, 1)
    joint, trace = log_density(model, (X, Y), {}, values)
    likelihood = trace["y"]["fn"].log_prob(Y).sum()
    result, _ = log_density(tempered, (X, Y), {}, values)
    np.testing.assert_allclose(result, joint + likelihood, rtol=1e-5)


def test_tempered_leaves_latent_sites_inside_the_block_alone():
    def model(x, y=None, *, batch_size=None):
        with bnn.tempered(0.5):
            scale = numpyro.sample("scale", dist.HalfNormal(1.0))
            with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
                x, y = bnn.minibatch(x, y)
                numpyro.sample("y", dist.Normal(0.0, scale), obs=y)

    y = np.array([0.5, -1.0])
    energy = potential_energy(model, (y[:, None], y), {}, {"scale": jnp.log(1.3)})
    expected = (
        2 * dist.Normal(0, 1.3).log_prob(y).sum()
        + dist.HalfNormal(1.0).log_prob(1.3)
        + jnp.log(1.3)
    )
    np.testing.assert_allclose(-energy, expected, rtol=1e-5)


def run(model, x=X, y=Y):
    handlers.seed(model, jax.random.key(0))(x, y)


def test_tempering_twice_is_refused():
    linear = bnn.models.linear(likelihood=bnn.likelihoods.gaussian(1.0), temperature=0.5)

    def twice(x, y=None, *, batch_size=None):
        with bnn.tempered(0.5):
            linear(x, y)

    with pytest.raises(ValueError, match="tempered twice"):
        run(twice)
    with pytest.raises(ValueError, match="already cold"):
        bnn.cold(bnn.cold(scale_model, 0.5), 0.5)
    with pytest.raises(ValueError, match="tempered twice"):
        run(bnn.cold(linear, 0.5))

    def hidden(x, y=None, *, batch_size=None):
        linear(x, y)

    with pytest.raises(ValueError, match="tempered twice"):
        run(bnn.cold(hidden, 0.5))


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("nan"), float("inf")])
def test_a_temperature_is_positive_and_finite(temperature):
    with pytest.raises(ValueError, match="positive and finite"):
        bnn.tempered(temperature)
    with pytest.raises(ValueError, match="positive and finite"):
        bnn.cold(scale_model, temperature)
    with pytest.raises(ValueError, match="positive and finite"):
        bnn.models.linear(temperature=temperature)


def test_a_temperature_is_a_number():
    with pytest.raises(TypeError, match="must be a number"):
        bnn.tempered("0.5")


def test_minibatch_takes_the_rows_the_plate_chose_and_scales_the_likelihood():
    model = bnn.models.linear(likelihood=bnn.likelihoods.gaussian(1.0))
    values = parameters(model, 2)
    rows = jnp.array([3, 7, 8, 1])
    batched = handlers.substitute(model, data={**values, "data": rows})
    total, trace = log_density(batched, (X, Y), {"batch_size": 4}, {})
    site = trace["y"]
    np.testing.assert_allclose(site["value"], Y[rows], rtol=1e-6)
    prior = sum(
        s["fn"].log_prob(s["value"]).sum()
        for n, s in trace.items()
        if s["type"] == "sample" and n in values
    )
    expected = prior + 12 / 4 * site["fn"].log_prob(Y[rows]).sum()
    np.testing.assert_allclose(total, expected, rtol=1e-5)


class TwoLayers(flax.nnx.Module):
    def __init__(self, rngs):
        self.inner = flax.nnx.Linear(3, 4, rngs=rngs)
        self.outer = flax.nnx.List([flax.nnx.Linear(4, 1, rngs=rngs)])

    def __call__(self, x):
        return self.outer[0](jnp.tanh(self.inner(x)))


def test_linen_and_nnx_agree_on_the_density():
    """The same weights under both ways of writing the network: the same log density."""
    likelihood, prior = bnn.likelihoods.gaussian(0.5), bnn.priors.normal(0.8)
    linen = bnn.bayesian_network(bnn.nn.MLP((4,), outputs=1), prior, likelihood)
    nnx = bnn.bayesian_network(TwoLayers(flax.nnx.Rngs(0)), prior, likelihood)
    values = parameters(linen, 0)
    renamed = {
        f"net/{there}.{leaf}": values[f"net/{here}.{leaf}"]
        for here, there in (("Dense_0", "inner"), ("Dense_1", "outer.0"))
        for leaf in ("kernel", "bias")
    }
    a, _ = log_density(linen, (X, Y), {}, values)
    b, _ = log_density(nnx, (X, Y), {}, renamed)
    np.testing.assert_allclose(a, b, rtol=1e-6)


class WithBatchNorm(flax.linen.Module):
    @flax.linen.compact
    def __call__(self, x):
        x = flax.linen.BatchNorm(use_running_average=False)(x)
        return flax.linen.Dense(1)(x)


class Empty(flax.linen.Module):
    def __call__(self, x):
        return x[:, :1]


@pytest.mark.parametrize(
    ("network", "sentence"),
    [
        (WithBatchNorm(), "^The network WithBatchNorm keeps state besides.*batch_stats"),
        (flax.nnx.BatchNorm(3, rngs=flax.nnx.Rngs(0)), "keeps state besides its parameters"),
        (Empty(), "has no parameters"),
    ],
)
def test_networks_that_mcmc_cannot_serve_are_refused(network, sentence):
    model = bnn.bayesian_network(network, bnn.priors.normal(), bnn.likelihoods.gaussian(1.0))
    with pytest.raises(ValueError, match=sentence):
        run(model)


class Width(flax.nnx.Module):
    def __init__(self, width=4, *, rngs):
        self.layer = flax.nnx.Linear(3, width, rngs=rngs)
        self.last = flax.nnx.Linear(width, 1, rngs=rngs)

    def __call__(self, x):
        return self.last(self.layer(x))


class NeedsWidth(Width):
    def __init__(self, width, rngs):
        super().__init__(width, rngs=rngs)


@pytest.mark.parametrize("kind", [Width, TwoLayers])
def test_a_class_that_rngs_alone_build_is_a_network_that_can_start_at_its_own_weights(kind):
    prior, likelihood = bnn.priors.normal(), bnn.likelihoods.gaussian(1.0)
    model = bnn.bayesian_network(kind, prior, likelihood)
    built = bnn.bayesian_network(lambda rngs: kind(rngs=rngs), prior, likelihood)
    assert parameters(model, 0).keys() == parameters(built, 0).keys() != set()
    found, expected = (initialised_sites(m, X, Y) for m in (model, built))
    assert found.keys() == expected.keys() == parameters(model, 0).keys()


def test_a_class_that_needs_more_than_rngs_is_told_the_function_that_builds_it():
    with pytest.raises(TypeError, match=r"`lambda rngs: NeedsWidth\(\.\.\., rngs=rngs\)`"):
        bnn.bayesian_network(NeedsWidth, bnn.priors.normal(), bnn.likelihoods.gaussian())


def test_a_number_is_the_width_of_a_single_layer():
    assert bnn.models.mlp(hidden=16).network == bnn.models.mlp(hidden=(16,)).network


def test_slips_in_names_are_answered():
    for name, sentence in {
        "NUTS": "It is NumPyro's: `from numpyro.infer import NUTS`",
        "SGMC": r"Did you mean `SGHMC`",
    }.items():
        with pytest.raises(AttributeError, match=sentence):
            getattr(bnn.kernels, name)
    for name, meant in {"normal": "gaussian", "studentt": "student_t"}.items():
        with pytest.raises(AttributeError, match=f"Did you mean `{meant}`"):
            getattr(bnn.likelihoods, name)
    with pytest.raises(AttributeError, match=r"no attribute '__path_'$"):
        bnn.likelihoods.__path_  # noqa: B018
    kernel = bnn.kernels.HMC(bnn.models.linear(), num_leapfrogs=1)
    with pytest.raises(TypeError, match="`sample` takes `warmup`, not `num_warmup`; `draws`, not"):
        bnn.sample(kernel, X, Y, num_warmup=5, num_samples=5)
    with pytest.raises(TypeError, match="`chains`, not `num_chains`; `progress`, not `progress_b"):
        bnn.sample(kernel, X, Y, warmup=5, draws=5, num_chains=2, progress_bar=False)


def test_arguments_of_bayesian_network_are_checked():
    network, prior = bnn.nn.MLP((), outputs=1), bnn.priors.normal()
    with pytest.raises(TypeError, match=r"Call it: `likelihoods.gaussian\(\)`"):
        bnn.bayesian_network(network, prior, bnn.likelihoods.gaussian)
    for build in (bnn.models.mlp, bnn.models.linear):
        with pytest.raises(TypeError, match=r"Call it: `likelihoods.gaussian\(\)`"):
            build(likelihood=bnn.likelihoods.gaussian)
        with pytest.raises(TypeError, match=r"not 'gaussian'.*`likelihoods.gaussian\(\)` makes"):
            build(likelihood="gaussian")
    with pytest.raises(TypeError, match="must be an instance"):
        bnn.bayesian_network(bnn.nn.MLP, prior, bnn.likelihoods.gaussian())
    with pytest.raises(ValueError, match="without '/' and '.'"):
        bnn.bayesian_network(network, prior, bnn.likelihoods.gaussian(), name="a/b")
    with pytest.raises(TypeError, match="must be a module of Flax"):
        run(bnn.bayesian_network(jnp.tanh, prior, bnn.likelihoods.gaussian(1.0)))
    with pytest.raises(ValueError, match="needs 2 network outputs"):
        run(bnn.bayesian_network(network, prior, bnn.likelihoods.heteroscedastic()))


def test_an_mlp_refuses_an_unknown_activation():
    with pytest.raises(ValueError, match="Did you mean `tanh`"):
        run(bnn.models.mlp(hidden=(2,), activation="tahn"))
