"""Every kernel has the posterior of Bayesian linear regression, and one that is broken has not.

The posterior is normal in closed form, see `closed_form`. Stochastic-gradient kernels take all rows
in each step, or have an accept step: what minibatches do to them is in their own tests.
"""

import jax.numpy as jnp
import numpyro.infer
import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl.inference.kernels import (
    HMC,
    MALA,
    MCLMC,
    OBABO,
    SGHMC,
    SGLD,
    SGMCLMC,
    WALNUTS,
    AdjustedMCLMC,
    ChEES,
    ParallelTempering,
    RandomWalk,
)
from bayesnn_ppl.inference.kernels.common.acceptance import metropolis
from bayesnn_ppl.inference.kernels.common.microcanonical_dynamics import trajectory
from bayesnn_ppl.inference.kernels.full_batch import (
    hmc,
    mala,
    metropolis_kernel,
    random_walk,
)
from bayesnn_ppl.inference.kernels.full_batch.leapfrog import hmc_step
from bayesnn_ppl.inference.kernels.full_batch.mala import mala_proposal
from bayesnn_ppl.inference.kernels.full_batch.microcanonical import adjusted_mclmc
from bayesnn_ppl.inference.kernels.full_batch.random_walk import random_walk_proposal
from tests.inference.kernels.known_moments import (
    LINEAR,
    NOISE,
    SETTINGS,
    closed_form,
    coefficients,
    worst_deviation,
)
from tests.marks import checked

LIKELIHOOD = bnn.likelihoods.gaussian(NOISE)
FIXED = dict(adapt_step_size=False)
ALL_ROWS = dict(step_size=1e-4, batch_size=40, steps_per_draw=100, minibatches="epoch")
SEQUENTIAL = dict(warmup=30, draws=1000, chain_method="sequential")
COLD = {"posterior_temperature": 0.5}
# Name -> kernel, its model and settings, those of the run, and the temperatures of the target. The
# posterior's standard deviations are near 0.08: a step of 0.1 is a large one.
KERNELS = {
    "NUTS": (numpyro.infer.NUTS, LINEAR, {}, dict(warmup=400, draws=1000), {}),
    "NUTS, likelihood at T": (
        numpyro.infer.NUTS,
        bnn.models.linear(likelihood=LIKELIHOOD, temperature=0.5),
        {},
        dict(warmup=400, draws=1000),
        {"likelihood_temperature": 0.5},
    ),
    "NUTS, cold": (
        numpyro.infer.NUTS,
        bnn.cold(LINEAR, 0.5),
        {},
        dict(warmup=400, draws=1000),
        COLD,
    ),
    # A shorter trajectory than NumPyro's 2π, which brings a Gaussian back to where it began.
    "HMC of NumPyro": (
        numpyro.infer.HMC,
        LINEAR,
        dict(trajectory_length=1.7),
        dict(warmup=400, draws=1000),
        {},
    ),
    "HMC": (
        HMC,
        LINEAR,
        dict(step_size=0.1, num_leapfrogs=2, jitter=0.5, **FIXED),
        dict(warmup=100, draws=2000),
        {},
    ),
    "HMC, cold": (
        HMC,
        bnn.cold(LINEAR, 0.5),
        dict(prior_variance=0.01, jitter=0.2),
        dict(warmup=300, draws=1000),
        COLD,
    ),
    "MALA": (MALA, LINEAR, dict(step_size=3e-3, **FIXED), dict(warmup=200, draws=3000), {}),
    "RandomWalk": (RandomWalk, LINEAR, {}, dict(warmup=500, draws=5000), {}),
    # A step size that a third of the proposals do not survive.
    "AdjustedMCLMC": (
        AdjustedMCLMC,
        LINEAR,
        dict(step_size=0.5, length=0.5, preconditioning="identity", **FIXED),
        dict(warmup=200, draws=3000),
        {},
    ),
    "AdjustedMCLMC, tuned": (AdjustedMCLMC, LINEAR, {}, dict(warmup=400, draws=1500), {}),
    "MCLMC": (
        MCLMC,
        LINEAR,
        dict(energy_variance_start=5e-3, energy_variance_end=5e-4),
        dict(warmup=400, draws=1500),
        {},
    ),
    "ChEES": (
        ChEES,
        LINEAR,
        {},
        dict(warmup=300, draws=600, chains=8, chain_method="vectorized"),
        {},
    ),
    "WALNUTS": (WALNUTS, bnn.cold(LINEAR, 0.5), {}, dict(warmup=400, draws=1000), COLD),
    "ParallelTempering": (
        ParallelTempering,
        LINEAR,
        dict(temperatures=(1, 2, 4)),
        dict(warmup=300, draws=800),
        {},
    ),
    "OBABO": (
        OBABO,
        LINEAR,
        dict(step_size=8e-4, batch_size=16, steps_per_draw=6, temperature=0.5),
        dict(warmup=50, draws=3000),
        COLD,
    ),
    # The bias ελ/4 of a standard deviation is 0.4 %.
    "SGLD": (SGLD, LINEAR, ALL_ROWS, SEQUENTIAL, {}),
    "SGLD, cold": (SGLD, LINEAR, dict(temperature=0.5, **ALL_ROWS), SEQUENTIAL, COLD),
    "SGHMC, cold": (
        SGHMC,
        LINEAR,
        dict(momentum_decay=0.9, temperature=0.5, **ALL_ROWS),
        SEQUENTIAL,
        COLD,
    ),
    "SGMCLMC, cold": (
        SGMCLMC,
        LINEAR,
        dict(temperature=0.5, **ALL_ROWS),
        SEQUENTIAL,
        COLD,
    ),
}


# In `make test` each kernel once: the others differ in a temperature or an option.
ONCE = [name for name in KERNELS if "," not in name or name in ("SGHMC, cold", "SGMCLMC, cold")]


@pytest.mark.parametrize("name", checked(KERNELS, *ONCE))
def test_draws_are_those_of_the_posterior_at_its_temperature(regression, name):
    kind, model, settings, run, temperatures = KERNELS[name]
    theta = coefficients(bnn.sample(kind(model, **settings), *regression, **SETTINGS | run))
    assert worst_deviation(theta, *closed_form(*regression, **temperatures)) < 4.5
    # The negative control: the same draws at another temperature must be caught.
    which, temperature = next(iter(temperatures.items()), ("posterior_temperature", 1.0))
    wrong = closed_form(*regression, **{which: 2 * temperature})
    assert worst_deviation(theta, *wrong) > 6


def always_accept(start, noise, uniform, density, **settings):
    return hmc_step(start, noise, -1.0, density, **settings)


def momenta_of_variance_two(start, noise, uniform, density, **settings):
    """The kinetic energy is that of variance 1."""
    return hmc_step(start, jnp.sqrt(2.0) * noise, uniform, density, **settings)


def without_correction(*args, **settings):
    """The proposal's asymmetry left out of the ratio."""
    proposed, gradient, terms, _ = mala_proposal(*args, **settings)
    return proposed, gradient, terms, mala.log_ratio(terms, args[2])


def half_the_ratio(*args, **settings):
    """As if the likelihood and the prior counted half: temperature 2."""
    proposed, terms, ratio = random_walk_proposal(*args, **settings)
    return proposed, terms, 0.5 * ratio


def accept_all(log_ratio, uniform):
    return metropolis(log_ratio, uniform)._replace(accepted=jnp.isfinite(log_ratio))


def wrong_kinetic(*args, **settings):
    """ΔK too small by 15 %, as it is with another power of the volume."""
    point, kinetic = trajectory(*args, **settings)
    return point, 0.85 * kinetic


def ends_alone(self, before, after, data, key):
    """The potentials of the ends decide, without the work along the trajectory."""
    idle = after.variables._replace(work=0 * after.variables.work)
    return OBABO._finish(self, before, after._replace(variables=idle), data, key)


def missing_root(self, position, variables, gradient, normals, settings):
    """Noise √ε where √(2ε) belongs: the temperature is half of what it says."""
    return SGLD._step(self, position, variables, gradient, (normals[0] / jnp.sqrt(2.0),), settings)


# What is wrong -> the kernel above, and the function of a module or the method that is replaced.
BROKEN = {
    "HMC without accept step": ("HMC", (hmc, "hmc_step", always_accept)),
    "HMC with another kinetic energy": ("HMC", (hmc, "hmc_step", momenta_of_variance_two)),
    "MALA without correction": ("MALA", (mala, "mala_proposal", without_correction)),
    "half the ratio": ("RandomWalk", (random_walk, "random_walk_proposal", half_the_ratio)),
    "AdjustedMCLMC without accept step": (
        "AdjustedMCLMC",
        (metropolis_kernel, "metropolis", accept_all),
    ),
    "AdjustedMCLMC with another kinetic energy": (
        "AdjustedMCLMC",
        (adjusted_mclmc, "trajectory", wrong_kinetic),
    ),
    "OBABO without its work": ("OBABO", ("_finish", ends_alone)),
    "OBABO without accept step": ("OBABO", ("_finish", lambda self, before, after, *_: after)),
    "SGLD without its root of two": ("SGLD", ("_step", missing_root)),
}


@pytest.mark.parametrize(
    "fault", checked(BROKEN, "HMC without accept step", "SGLD without its root of two")
)
def test_a_broken_kernel_is_caught(regression, monkeypatch, fault):
    """A class of its own, so that no compiled program of the right kernel is used."""
    name, replaced = BROKEN[fault]
    kind, model, settings, run, temperatures = KERNELS[name]
    methods = dict([replaced]) if len(replaced) == 2 else {}
    if not methods:
        monkeypatch.setattr(*replaced)
    broken = type(fault.title().replace(" ", ""), (kind,), methods)(model, **settings)
    theta = coefficients(bnn.sample(broken, *regression, **SETTINGS | run))
    assert worst_deviation(theta, *closed_form(*regression, **temperatures)) > 6
