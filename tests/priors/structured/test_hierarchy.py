"""Learned scales: who shares one, both parametrisations are one distribution, known mixtures."""

from functools import partial

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
from numpyro import handlers
from numpyro.infer.util import potential_energy
from scipy import integrate, stats

import bayesnn_ppl as bnn
from bayesnn_ppl import priors
from tests.priors.prior_checks import (
    IMAGES,
    NNX,
    ROWS,
    SMALLEST_P,
    Everything,
    ks_p_value,
    shapes_of,
)

LATENT, DERIVED = "sample", "deterministic"

SCALES = {  # over -> the sites of its scales
    "network": {"prior_scale": ()},
    "layer": {"Dense_0.prior_scale": (), "Dense_1.prior_scale": ()},
    "block": {"Dense_0.prior_scale": (), "Dense_1.prior_scale": ()},
    "unit": {"Dense_0.kernel.prior_scale": (4,), "Dense_1.kernel.prior_scale": (1,)},
    "input": {"Dense_0.kernel.prior_scale": (3,), "Dense_1.kernel.prior_scale": (4,)},
    "weight": {
        f"{name}.prior_scale": shape
        for name, shape in {
            "Dense_0.kernel": (3, 4),
            "Dense_0.bias": (4,),
            "Dense_1.kernel": (4, 1),
            "Dense_1.bias": (1,),
        }.items()
    },
}


@pytest.mark.parametrize("over", SCALES)
def test_scales_are_shared_as_over_says(over):
    for network in (bnn.nn.MLP((4,), outputs=1), NNX()):
        found = shapes_of(priors.hierarchical(over=over, centred=True), network)
        scales = {n: shape for n, (_, shape) in found.items() if n.endswith("prior_scale")}
        assert scales == SCALES[over]
        assert found["Dense_0.kernel"] == (LATENT, (3, 4))
    found = shapes_of(priors.hierarchical(over=over))
    assert found["Dense_0.kernel"] == (DERIVED, (3, 4))
    assert found["Dense_0.kernel_base"] == (LATENT, (3, 4))


def test_filters_share_scales_in_groups_and_dense_layers_have_another_prior():
    prior = priors.hierarchical(over="filter_group", groups=1)
    found = shapes_of(prior, Everything(), IMAGES)
    assert found["Conv_0.kernel.prior_scale"] == (LATENT, (1,))
    assert found["LSTM_0.kernel"] == (LATENT, (8, 8))
    assert "Dense_0.kernel.prior_scale" not in found
    each = shapes_of(priors.hierarchical(over="filter_group"), Everything(), IMAGES)
    assert each["Conv_0.kernel.prior_scale"] == (LATENT, (2,))


def test_a_group_of_filters_has_one_scale():
    """With the scales given, filters 0, 1 and 2, 3 have two standard deviations."""
    prior = priors.hierarchical(over="filter_group", groups=2, centred=True)
    scales = np.array([0.5, 3.0])

    def model():
        return prior.function({"kernel": (2, 2, 1, 4)}, None)

    given = handlers.substitute(model, data={"kernel.prior_scale": scales})
    trace = handlers.trace(handlers.seed(given, jax.random.key(0))).get_trace()
    np.testing.assert_allclose(
        np.sqrt(trace["kernel"]["fn"].variance[0, 0, 0]), [0.5, 0.5, 3.0, 3.0], rtol=1e-6
    )


def test_a_residual_block_shares_a_scale():
    network = bnn.models.resnet20_frn(depth=8, width=2).network
    prior = priors.hierarchical(over=priors.residual_blocks(8), centred=True)
    found = shapes_of(prior, network, np.zeros((1, 8, 8, 3), np.float32))
    assert {n.removesuffix(".prior_scale") for n in found if n.endswith("prior_scale")} == {
        "head",
        "stem",
        *(f"stage_{i}.block_0" for i in range(3)),
    }


def test_the_fan_in_divides_the_scale_of_kernels_alone():
    prior = priors.hierarchical(over="network", fan_in=True, centred=True)

    def model():
        return prior.function({"kernel": (2, 2, 4, 3), "bias": (3,)}, None)

    given = handlers.substitute(model, data={"prior_scale": 2.0})
    trace = handlers.trace(handlers.seed(given, jax.random.key(0))).get_trace()
    np.testing.assert_allclose(trace["kernel"]["fn"].variance, 4 / 16, rtol=1e-6)
    np.testing.assert_allclose(trace["bias"]["fn"].variance, 4.0, rtol=1e-6)


X, Y = ROWS, np.sin(ROWS[:, 0]).astype(np.float32)
POSITION = np.random.default_rng(0)


def model_of(prior):
    likelihood = bnn.likelihoods.gaussian(0.5)
    return bnn.bayesian_network(bnn.nn.MLP((), outputs=1), prior, likelihood)


def potential(model, z):
    return float(potential_energy(model, (X, Y), {}, z))


def positions(families):
    """The same point in both parametrisations, and Σ log dw/dz: centred, not centred, Jacobian."""
    # kernel (3, 1), bias (1,)
    centred, free, jacobian = {}, {}, 0.0
    for name, (shape, scale) in families.items():
        base = POSITION.normal(size=shape)
        free[f"net/{name}_base"] = base
        centred[f"net/{name}"] = scale * base
        jacobian += np.sum(np.log(np.broadcast_to(scale, shape)))
    return centred, free, jacobian


def two_forms(kind):
    """Priors centred and not, a point in both, and the log Jacobian of the map between them."""
    u, v = -0.7, 0.4  # unconstrained: log scales
    if kind == "layer":
        shared = {"net/Dense_0.prior_scale": np.array(u)}
        scales = {"Dense_0.kernel": ((3, 1), np.exp(u)), "Dense_0.bias": ((1,), np.exp(u))}
        make = partial(priors.hierarchical, dist.Gamma(2.0, 3.0))
    elif kind == "input":
        logs = np.array([u, v, 0.1])
        shared = {"net/Dense_0.kernel.prior_scale": logs, "net/Dense_0.bias": np.array([0.3])}
        scales = {"Dense_0.kernel": ((3, 1), np.exp(logs)[:, None] / 3**0.5)}
        make = partial(priors.hierarchical, dist.HalfCauchy(1.0), over="input", fan_in=True)
    else:
        local = np.array([[0.2], [-1.0], [2.0]])
        shared = {
            "net/Dense_0.horseshoe_global": np.array(u),
            "net/Dense_0.horseshoe_slab_variance": np.array(v),
            "net/Dense_0.kernel.horseshoe_local": local,
            "net/Dense_0.bias": np.array([0.3]),
        }
        a, c2 = np.exp(u + local), np.exp(v)
        scales = {"Dense_0.kernel": ((3, 1), np.sqrt(c2 * a**2 / (c2 + a**2)))}
        make = partial(priors.regularised_horseshoe, 0.5)
    centred, free, jacobian = positions(scales)
    return make, centred | shared, free | shared, jacobian


@pytest.mark.parametrize("kind", ["layer", "input", "regularised horseshoe"])
def test_centred_and_not_are_one_density_at_every_temperature(kind):
    make, centred, free, jacobian = two_forms(kind)
    for temperature in (1.0, 0.25):
        forms = [
            model_of(make(centred=c))
            if temperature == 1
            else bnn.cold(model_of(make(centred=c)), temperature)
            for c in (True, False)
        ]
        expected = potential(forms[0], centred) - jacobian
        assert potential(forms[1], free) == pytest.approx(expected, rel=1e-4, abs=1e-3)
    # Without its factors the form that is not centred would be another distribution under `cold`.
    plain = handlers.block(
        forms[1], hide_fn=lambda s: s.get("name", "").endswith(("_scaled", "_base_log_det"))
    )
    assert abs(potential(plain, free) - expected) > 0.1


def test_an_inverse_gamma_mixture_of_normals_is_student_t():
    a, b = 1.5, 2.0
    fn, expected = priors.inverse_gamma_scale(a, b), stats.t(2 * a, 0, (b / a) ** 0.5)
    keys = jax.random.split(jax.random.key(3))
    scales = np.asarray(fn.sample(keys[0], (20_000,)), float)
    assert ks_p_value(scales**2, stats.invgamma(a, scale=b).cdf) > SMALLEST_P
    draws = scales * np.asarray(jax.random.normal(keys[1], (20_000,)), float)
    assert ks_p_value(draws, expected.cdf) > SMALLEST_P
    # The same test sees the Student-t of the gamma mixture's mirror image, and a wrong scale.
    assert ks_p_value(draws, stats.t(2 * a).cdf) < SMALLEST_P
    scale = np.geomspace(1e-3, 1e4, 4001)
    density = np.exp(np.asarray(fn.log_prob(scale), float))
    assert integrate.simpson(density, x=scale) == pytest.approx(1.0, abs=1e-4)
    for w in (0.0, 0.5, -3.0):
        mixture = integrate.simpson(density * stats.norm(0, scale).pdf(w), x=scale)
        assert np.log(mixture) == pytest.approx(expected.logpdf(w), abs=2e-3)
    assert priors.inverse_gamma_scale(3.0, 2.0).variance == pytest.approx(
        2 / 2 - stats.invgamma(3, scale=2).expect(np.sqrt) ** 2, rel=1e-4
    )


def test_draws_of_the_horseshoe_are_scaled_by_both_scales():
    """w/(τλ) is standard normal, and λ and τ are half-Cauchy."""
    prior = priors.horseshoe(0.5)
    model = handlers.seed(lambda: prior.function({"d.kernel": (60, 60)}, None), jax.random.key(0))
    trace = {n: s["value"] for n, s in handlers.trace(model).get_trace().items()}
    local = np.asarray(trace["d.kernel.horseshoe_local"], float)
    assert ks_p_value(local, stats.halfcauchy(0, 1).cdf) > SMALLEST_P
    ratio = trace["d.kernel"] / (trace["d.horseshoe_global"] * local)
    assert ks_p_value(ratio, stats.norm().cdf) > SMALLEST_P
    assert ks_p_value(1.25 * np.asarray(ratio), stats.norm().cdf) < SMALLEST_P


def test_a_slab_bounds_the_largest_weights_of_a_horseshoe():
    wide = {"horseshoe_global": 100.0, "horseshoe_slab_variance": 4.0}
    prior = priors.regularised_horseshoe(over="network", centred=True)

    def model():
        return prior.function({"kernel": (2, 1), "bias": (1,)}, None)

    given = handlers.substitute(
        model, data=wide | {"kernel.horseshoe_local": np.array([[1e6], [1e-4]])}
    )
    trace = handlers.trace(handlers.seed(given, jax.random.key(0))).get_trace()
    # Far beyond the slab it is N(0, c²), far below it the plain horseshoe.
    np.testing.assert_allclose(trace["kernel"]["fn"].variance[:, 0], [4.0, 1e-4], rtol=1e-4)
