"""Random-walk Metropolis: its law, its adaptation, its refusals."""

import jax
import numpy as np
import pytest
from numpyro.infer import MCMC

import bayesnn_ppl as bnn
from bayesnn_ppl.inference.kernels.full_batch import random_walk
from bayesnn_ppl.inference.kernels.full_batch.random_walk import RandomWalk, random_walk_proposal
from tests.inference.kernels.known_moments import (
    LINEAR,
    NO_DATA,
    linear_deviation,
    standard_normals,
)


class Tempered(RandomWalk):
    """A class of its own, so that no compiled program of the right kernel is used."""


def half_the_ratio(*args, **settings):
    """As if the likelihood and the prior counted half: temperature 2."""
    proposed, terms, ratio = random_walk_proposal(*args, **settings)
    return proposed, terms, 0.5 * ratio


@pytest.mark.parametrize(
    ("kernel", "proposal"),
    [(RandomWalk, random_walk_proposal), (Tempered, half_the_ratio)],
    ids=["right", "half the ratio"],
)
def test_the_law_and_what_breaks_it(regression, monkeypatch, kernel, proposal):
    monkeypatch.setattr(random_walk, "random_walk_proposal", proposal)
    deviation = linear_deviation(kernel(LINEAR), *regression, warmup=500, draws=5000)
    assert deviation < 4 if kernel is RandomWalk else deviation > 8


def test_adaptation_aims_at_the_target(regression):
    kernel = RandomWalk(LINEAR, step_size=30.0, target_accept=0.4)
    posterior = bnn.sample(kernel, *regression, warmup=800, draws=800, progress=False)
    assert abs(posterior.statistics["acceptance_rate"].mean() - 0.4) < 0.06


def test_a_draw_repeats_as_often_as_it_is_rejected(regression):
    kernel = RandomWalk(LINEAR, step_size=0.02, adapt_step_size=False)
    posterior = bnn.sample(kernel, *regression, warmup=100, draws=3000, progress=False)
    bias = posterior.draws["net.Dense_0.bias"][..., 0]
    repeated = (bias[:, 1:] == bias[:, :-1]).mean()
    rate = posterior.statistics["acceptance_rate"].mean()
    assert repeated == pytest.approx(1 - rate, abs=0.02)
    assert rate > 0.6, "nothing was adapted"


@pytest.mark.parametrize("method", ["sequential", "vectorized"])
def test_numpyro_runs_it(method):
    mcmc = MCMC(
        RandomWalk(standard_normals, step_size=1.0),
        num_warmup=20,
        num_samples=50,
        num_chains=2,
        chain_method=method,
        progress_bar=False,
    )
    mcmc.run(jax.random.key(0), *NO_DATA, extra_fields=("step_size",))
    theta = mcmc.get_samples(group_by_chain=True)["theta"]
    assert np.isfinite(theta).all() and len(np.unique(theta[..., 0])) > 10
    sizes = mcmc.get_extra_fields(group_by_chain=True)["step_size"]
    assert (sizes == sizes[:, :1]).all() and not (sizes == 1.0).any()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"step_size": float("inf")}, "`step_size` of RandomWalk must be positive and finite"),
        ({"target_accept": 0.0}, "`target_accept` of RandomWalk must be positive"),
    ],
)
def test_settings_out_of_range(settings, words):
    with pytest.raises(ValueError, match=words):
        RandomWalk(LINEAR, **settings)
