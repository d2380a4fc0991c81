"""Langevin kernels: the steps they make, and their predicted distribution on minibatches."""

import jax
import numpy as np
import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl.inference.kernels.stochastic_gradient import integrators
from bayesnn_ppl.inference.kernels.stochastic_gradient.base import StepSettings
from bayesnn_ppl.inference.kernels.stochastic_gradient.langevin import Langevin
from bayesnn_ppl.inference.kernels.stochastic_gradient.sghmc import SGHMC
from bayesnn_ppl.inference.kernels.stochastic_gradient.sgld import SGLD
from bayesnn_ppl.inference.schedules.simple import Cyclical
from tests.inference.kernels.known_moments import (
    LINEAR,
    SETTINGS,
    closed_form,
    coefficients,
    worst_deviation,
)
from tests.inference.kernels.stationary_distributions import (
    METHODS,
    minibatch_distribution,
    regression_rows,
)
from tests.marks import checked

BATCH = dict(step_size=2e-4, batch_size=8)


@pytest.mark.parametrize("integrator", [name for name in METHODS if name != "SGLD"])
def test_a_kernel_makes_the_step_of_its_integrator(integrator):
    """On the settings of a step in a cycle: friction, temperature, mass and noise included."""
    kernel = Langevin(LINEAR, integrator=integrator, **BATCH | {"step_size": Cyclical(0.04, 10)})
    method = METHODS[integrator]
    generator = np.random.default_rng(0)
    mass = np.array([0.5, 1.0, 4.0])
    settings = StepSettings(0.01, 0.3, 0.5, mass, 0.0, 5)

    def gradient(position):
        return 3.0 * position

    with jax.enable_x64(True):
        position, normal, *normals = generator.normal(size=(2 + method.noises, 3))
        variables = kernel._begin(position, normal, settings, gradient)
        end = kernel._step(position, variables, gradient, tuple(normals), settings)
        start = np.stack(
            [
                position,
                *(
                    v
                    for v in (variables.momentum, variables.noise, variables.gradient)
                    if v is not None
                ),
            ]
        )
        expected = method.step(
            start,
            0.5 * np.stack(normals),
            gradient,
            step_size=0.01,
            temperature=0.3,
            mass=mass,
            momentum_decay=1 - 0.5 * (1 - 0.9),
        )
    np.testing.assert_allclose(end[0], expected[0], rtol=1e-12)
    kept = [v for v in (end[1].momentum, end[1].noise, end[1].gradient) if v is not None]
    np.testing.assert_allclose(kept, expected[1:], rtol=1e-12)
    if integrator != "leimkuhler_matthews":
        np.testing.assert_allclose(variables.momentum, np.sqrt(0.3 * mass) * normal)


KERNELS = {
    "SGLD": (SGLD, "SGLD", dict(step_size=1e-3, steps_per_draw=20)),
    "SGHMC": (SGHMC, "symplectic_euler", dict(step_size=2e-4, steps_per_draw=40)),
    "BAOAB": (Langevin, "BAOAB", dict(step_size=2e-4, steps_per_draw=40)),
}


@pytest.mark.parametrize("name", checked(KERNELS, "SGHMC"))
def test_the_distribution_on_minibatches_is_the_predicted_one(regression, name):
    """And the bias is there: neither the posterior itself nor one without minibatch noise fits."""
    x, y = regression
    kind, method, own = KERNELS[name]
    decay = {} if name == "SGLD" else {"momentum_decay": 0.9}
    kernel = kind(LINEAR, batch_size=8, temperature=0.5, **own, **decay)
    posterior = bnn.sample(kernel, x, y, warmup=100, draws=2000, **SETTINGS)
    theta = coefficients(posterior)
    settings = dict(step_size=own["step_size"], temperature=0.5, mass=1.0, momentum_decay=0.9)
    predicted = minibatch_distribution(METHODS[method], regression_rows(x, y), 8, settings)
    assert worst_deviation(theta, predicted.mean[:3], predicted.part(0, 3)) < 4.5
    assert worst_deviation(theta, *closed_form(x, y, posterior_temperature=0.5)) > 8


def test_decay_is_never_negative():
    """In a burn-in from a step far larger than the reference."""
    assert integrators.scaled_decay(0.5, 9.0, 1.0) == 0
