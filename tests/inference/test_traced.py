"""What is compiled for a run is what it needs, and no more."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import init_to_sample
from numpyro.infer.util import initialize_model

import bayesnn_ppl as bnn
from bayesnn_ppl.inference.sampling.chain_starts import ShapesFirst, from_prior
from bayesnn_ppl.inference.sampling.traced_functions import Settings, over_chains


@pytest.mark.parametrize(
    "law",
    [
        dist.Normal(1.0, 2.0).expand([2, 3]).to_event(),
        dist.HalfCauchy(1.0),
        dist.Dirichlet(jnp.ones(3)),
        dist.Uniform(-1.0, 2.0).expand([4]),
    ],
    ids=["normal", "half Cauchy", "Dirichlet", "uniform"],
)
def test_a_draw_from_the_prior_is_numpyros(law):
    site = {
        "type": "sample",
        "name": "w",
        "is_observed": False,
        "value": None,
        "fn": law,
        "kwargs": {"rng_key": jax.random.key(3), "sample_shape": ()},
    }
    np.testing.assert_array_equal(from_prior(site, values={}), init_to_sample(site))


def _two_sites(x, y):
    w = numpyro.sample("w", dist.Normal(0, 1).expand([3]).to_event(1))
    scale = numpyro.sample("scale", dist.HalfNormal(1.0))
    with numpyro.plate("data", len(x)):
        numpyro.sample("y", dist.Normal(x @ w, scale), obs=y)


def _sites_drawn(wrap):
    """How often the program of a start draws a site's random numbers."""
    x, y = np.ones((5, 3), np.float32), np.zeros(5, np.float32)
    strategy = wrap(partial(from_prior, values={}))

    def start(key):
        return initialize_model(key, _two_sites, init_strategy=strategy, model_args=(x, y))[0].z

    def count(jaxpr):
        inner = [getattr(p, "jaxpr", p) for e in jaxpr.eqns for p in e.params.values()]
        here = sum(equation.primitive.name == "random_bits" for equation in jaxpr.eqns)
        return here + sum(count(part) for part in inner if hasattr(part, "eqns"))

    return count(jax.make_jaxpr(start)(jax.random.key(0)).jaxpr)


def test_a_start_for_shapes_alone_is_not_drawn():
    assert _sites_drawn(lambda strategy: strategy) == 4, "for shapes, and where starts are tried"
    assert _sites_drawn(ShapesFirst) == 2


def _settings(chains, mesh):
    model = bnn.models.mlp(hidden=(3,))
    return Settings(
        kernel=bnn.kernels.HMC(model, num_leapfrogs=2),
        strategy=from_prior,
        warmup=0,
        chains=chains,
        mesh=mesh,
        arrangement="map",
        float64=False,
    )


def _squares(first, second, x):
    return {"sum": jnp.sum(first * x) + second, "square": first**2}


def _lowered(settings):
    first, second = jnp.arange(settings.chains * 2.0).reshape(-1, 2), jnp.arange(settings.chains)
    function = jax.jit(over_chains(settings, _squares))
    return function.lower(first, second, jnp.ones(2)).as_text(), function(
        first, second, jnp.ones(2)
    )


def test_shardings_are_noted_only_where_rows_are_split():
    alone, _ = _lowered(_settings(4, bnn.device_mesh(2)))
    split, _ = _lowered(_settings(4, bnn.device_mesh(2, 2)))
    assert "sharding_constraint" not in alone
    assert "sharding_constraint" in split


def test_a_chain_that_has_a_device_to_itself_runs_without_a_loop():
    two_each = _settings(4, bnn.device_mesh(2))
    looped, expected = _lowered(two_each)
    straight, found = _lowered(replace(two_each, mesh=bnn.device_mesh(4)))
    assert "while" in looped and "while" not in straight
    jax.tree.map(np.testing.assert_array_equal, found, expected)
