"""Adjusted microcanonical dynamics sample the posterior of the model, at any step size."""

import numpy as np
import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl.inference.kernels.full_batch.microcanonical.adjusted_mclmc import AdjustedMCLMC
from tests.inference.kernels.known_moments import (
    ALIGNED,
    NO_DATA,
    SETTINGS,
    funnel_and_banana,
    funnel_and_banana_values,
    gaussian,
    gaussian_deviation,
    half_space,
    worst_deviation,
)


@pytest.mark.check
def test_the_preconditioner_makes_scales_equal():
    """Variances from 1 to 1e-4: with it, in as many steps as for equal ones; without, not."""
    kernel = AdjustedMCLMC(gaussian(ALIGNED))
    assert gaussian_deviation(kernel, ALIGNED, warmup=500, draws=1500) < 4
    posterior = bnn.sample(kernel, *NO_DATA, warmup=500, draws=1500, **SETTINGS)
    plain = AdjustedMCLMC(gaussian(ALIGNED), preconditioning="identity")
    other = bnn.sample(plain, *NO_DATA, warmup=500, draws=10, **SETTINGS)
    assert posterior.statistics["n_steps"].mean() < 8
    assert other.statistics["n_steps"].mean() > 40


@pytest.mark.check
def test_a_funnel_and_a_banana():
    kernel = AdjustedMCLMC(funnel_and_banana, target_accept=0.95)
    posterior = bnn.sample(kernel, *NO_DATA, warmup=500, draws=5000, **SETTINGS)
    assert worst_deviation(*funnel_and_banana_values(posterior)) < 4.5
    assert abs(posterior.statistics["acceptance_rate"].mean() - 0.95) < 0.04
    assert not posterior.statistics["diverging"].any()


def test_a_region_of_nan_is_a_wall():
    posterior = bnn.sample(
        AdjustedMCLMC(half_space, preconditioning="identity"),
        *NO_DATA,
        warmup=300,
        draws=1500,
        **SETTINGS,
    )
    theta = posterior.draws["theta"]
    assert np.isfinite(theta).all() and theta[..., 0].max() <= 1
    assert theta[..., 0].max() > 0.9
    assert 0 < posterior.statistics["diverging"].mean() < 0.5
    # E[a | a < 1] = -φ(1)/Φ(1)
    assert abs(theta[..., 0].mean() + 0.2876) < 0.1
