"""Adjusted microcanonical dynamics have the law of the program, at any step size."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import MCMC

import bayesnn_ppl as bnn
from bayesnn_ppl.inference.kernels.common.acceptance import metropolis
from bayesnn_ppl.inference.kernels.full_batch import adjusted_mclmc, metropolis_kernel
from bayesnn_ppl.inference.kernels.full_batch.adjusted_mclmc import AdjustedMCLMC
from bayesnn_ppl.inference.kernels.full_batch.microcanonical import trajectory
from tests.inference.kernels.known_moments import (
    ALIGNED,
    LINEAR,
    NO_DATA,
    SETTINGS,
    funnel_and_banana,
    funnel_and_banana_values,
    gaussian,
    gaussian_deviation,
    linear_deviation,
    standard_normals,
    unrelated_data,
)
from tests.inference.test_exactness import worst_deviation


def always(log_ratio, uniform):
    """No accept step."""
    return metropolis(log_ratio, uniform)._replace(accepted=jnp.isfinite(log_ratio))


def wrong_kinetic(*args, **settings):
    """ΔK too small by 15 %, as it is with another power of the volume."""
    point, kinetic = trajectory(*args, **settings)
    return point, 0.85 * kinetic


class AlwaysAccepts(AdjustedMCLMC):
    """A class of its own, so that no compiled program of the right kernel is used."""


class WrongKinetic(AdjustedMCLMC):
    """Likewise."""


@pytest.mark.parametrize("kernel", [AdjustedMCLMC, AlwaysAccepts, WrongKinetic])
def test_the_law_and_what_breaks_it(regression, monkeypatch, kernel):
    """At a step size that a third of the proposals do not survive."""
    if kernel is AlwaysAccepts:
        monkeypatch.setattr(metropolis_kernel, "metropolis", always)
    if kernel is WrongKinetic:
        monkeypatch.setattr(adjusted_mclmc, "trajectory", wrong_kinetic)
    settings = dict(step_size=0.5, adapt_step_size=False, length=0.5, preconditioning="identity")
    deviation = linear_deviation(kernel(LINEAR, **settings), *regression, warmup=200, draws=3000)
    assert deviation < 4 if kernel is AdjustedMCLMC else deviation > 8


def test_tuned_it_has_the_law_of_a_regression(regression):
    assert linear_deviation(AdjustedMCLMC(LINEAR), *regression, warmup=400, draws=1500) < 4


def test_the_preconditioner_makes_scales_equal():
    """Variances from 1 to 1e-4: with it, in as many steps as for equal ones; without, not."""
    kernel = AdjustedMCLMC(gaussian(ALIGNED))
    assert gaussian_deviation(kernel, ALIGNED, warmup=500, draws=1500) < 4
    posterior = bnn.sample(kernel, *NO_DATA, warmup=500, draws=1500, **SETTINGS)
    plain = AdjustedMCLMC(gaussian(ALIGNED), preconditioning="identity")
    other = bnn.sample(plain, *NO_DATA, warmup=500, draws=10, **SETTINGS)
    assert posterior.statistics["n_steps"].mean() < 8
    assert other.statistics["n_steps"].mean() > 40


def test_a_funnel_and_a_banana():
    kernel = AdjustedMCLMC(funnel_and_banana, target_accept=0.95)
    posterior = bnn.sample(kernel, *NO_DATA, warmup=500, draws=5000, **SETTINGS)
    assert worst_deviation(*funnel_and_banana_values(posterior)) < 4.5
    assert abs(posterior.statistics["acceptance_rate"].mean() - 0.95) < 0.04
    assert not posterior.statistics["diverging"].any()


def hole(x, y=None, *, batch_size=None):
    """N(0, I) without the half space a > 1, where the density is NaN."""
    theta = numpyro.sample("theta", dist.Normal(0.0, 1.0).expand([3]))
    numpyro.factor("hole", 0 * jnp.sqrt(1.0 - theta[0]))
    unrelated_data(x, y, batch_size)


def test_a_region_of_nan_is_a_wall():
    posterior = bnn.sample(
        AdjustedMCLMC(hole, preconditioning="identity"),
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


@pytest.mark.parametrize("method", ["sequential", "vectorized", "parallel"])
def test_numpyro_runs_it(method):
    mcmc = MCMC(
        AdjustedMCLMC(standard_normals),
        num_warmup=30,
        num_samples=20,
        num_chains=2,
        chain_method=method,
        progress_bar=False,
    )
    mcmc.run(jax.random.key(0), *NO_DATA)
    theta = mcmc.get_samples(group_by_chain=True)["theta"]
    assert np.isfinite(theta).all() and len(np.unique(theta[..., 0])) > 20


def test_a_stopped_run_goes_on_to_the_same_bits(regression, tmp_path):
    settings = dict(warmup=60, draws=600, chains=2, seed=3, progress=False)
    whole = bnn.sample(AdjustedMCLMC(LINEAR), *regression, **settings)

    def stop(progress):
        return progress.phase == "sample" and progress.done >= 7

    part = bnn.sample(
        AdjustedMCLMC(LINEAR), *regression, out=tmp_path / "run", callback=stop, **settings
    )
    assert part.provenance["draws"] < 600
    resumed = bnn.resume(tmp_path / "run", AdjustedMCLMC(LINEAR), *regression, progress=False)
    for name in whole.draws:
        np.testing.assert_array_equal(whole.draws[name], resumed.draws[name])


def one_coordinate(x, y=None, *, batch_size=None):
    numpyro.sample("theta", dist.Normal(0.0, 1.0))
    unrelated_data(x, y, batch_size)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"step_size": 0.0}, "`step_size` of AdjustedMCLMC must be positive"),
        ({"target_accept": 1.0}, "`target_accept` of AdjustedMCLMC must be below 1"),
        ({"length": -1.0}, "`length` of AdjustedMCLMC must be positive"),
        ({"max_steps": 0}, "`max_steps` of AdjustedMCLMC must be at least 1"),
        ({"preconditioning": "dense"}, 'must be "diagonal" or "identity", not \'dense\''),
    ],
)
def test_settings_out_of_range(settings, words):
    with pytest.raises(ValueError, match=words):
        AdjustedMCLMC(LINEAR, **settings)
    with pytest.raises(TypeError, match="`adapt_step_size` of AdjustedMCLMC must be True or"):
        AdjustedMCLMC(LINEAR, adapt_step_size=1)


def test_one_coordinate_is_too_few():
    with pytest.raises(ValueError, match="at least two unconstrained coordinates.*Use NUTS"):
        bnn.sample(AdjustedMCLMC(one_coordinate), *NO_DATA, warmup=5, draws=5, **SETTINGS)
