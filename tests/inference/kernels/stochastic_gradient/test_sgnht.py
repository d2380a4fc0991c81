"""The Nosé-Hoover thermostat finds the gradient noise, where SGHMC is heated by it."""

import jax.numpy as jnp
import numpy as np
import optax
import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl.inference.kernels.stochastic_gradient.sghmc import SGHMC
from bayesnn_ppl.inference.kernels.stochastic_gradient.sgnht import SGNHT, thermostat_step
from tests.inference.kernels.known_moments import LINEAR
from tests.inference.kernels.normal_means import NormalMeans
from tests.inference.kernels.stationary_distributions import thermostat_distribution

EPSILON, TEMPERATURE, BATCH_SIZE = 4e-4, 0.7, 16
INJECTED = 0.1 / EPSILON**0.5
SETTINGS = dict(
    step_size=EPSILON, temperature=TEMPERATURE, batch_size=BATCH_SIZE, steps_per_draw=40
)
RUN = dict(warmup=200, draws=1500)
TARGET = (NormalMeans.mean, TEMPERATURE * NormalMeans.covariance)

# θ of `NormalMeans` is not a network's.
pytestmark = pytest.mark.filterwarnings("ignore:The posterior at temperature")


def predicted():
    settings = dict(step_size=EPSILON, temperature=TEMPERATURE, mass=1.0)
    rows = NormalMeans.quadratic_rows()
    return thermostat_distribution(rows, BATCH_SIZE, settings, lambda z: (z, INJECTED))


def test_the_target_under_noise_of_unknown_size():
    expected, thermostat = predicted()
    # The noise is of the size of what is injected, and smaller and larger than it; each
    # thermostat stands where it is, and the bias that is left is small.
    np.testing.assert_allclose(thermostat / INJECTED, [1.18, 1.74, 2.7], rtol=0.02)
    relative = np.diag(expected.part(0, 3)) / np.diag(TARGET[1])
    np.testing.assert_allclose(relative, 1, atol=0.02)
    kernel = SGNHT(NormalMeans.model, **SETTINGS)
    assert NormalMeans.deviation(kernel, expected.mean[:3], expected.part(0, 3), **RUN)[0] < 4.5


@pytest.mark.check
@pytest.mark.parametrize("kind", [SGNHT, bnn.kernels.ATMC])
def test_the_inertia_is_that_of_the_temperature_in_the_end(kind):
    settings = dict(step_size=1e-3, batch_size=8)
    constant = kind(LINEAR, temperature=1.0, **settings)
    for first in (0.0, 0.1):
        rising = kind(LINEAR, temperature=optax.linear_schedule(first, 1.0, 100), **settings)
        assert rising._inertia == constant._inertia
    with pytest.raises(ValueError, match="The temperature of .* must be positive"):
        kind(LINEAR, temperature=optax.linear_schedule(1.0, 0.0, 100), **settings)


def test_without_a_thermostat_the_same_noise_makes_it_too_hot():
    kernel = SGHMC(NormalMeans.model, momentum_decay=0.9, **SETTINGS)
    deviation, variances = NormalMeans.deviation(kernel, *TARGET, **RUN)
    assert deviation > 20
    np.testing.assert_allclose(variances / np.diag(TARGET[1]), [1.18, 1.74, 2.7], rtol=0.08)


@pytest.mark.check
def test_the_euler_form_is_colder_by_its_first_order_bias():
    """Var(θ) = T/λ times 1 - hξ/2, with hξ near 0.1 times the thermostats above."""
    kernel = SGNHT(NormalMeans.model, integrator="euler", **SETTINGS)
    deviation, variances = NormalMeans.deviation(kernel, *TARGET, **RUN)
    factor = 1 - 0.05 * predicted()[1] / INJECTED
    assert deviation > 8
    np.testing.assert_allclose(variances / np.diag(TARGET[1]), factor, atol=0.05)


def test_friction_may_vanish_or_turn_negative():
    """The fluctuation is smooth through ζ = 0, where its variance is 2hAT."""
    frictions = np.array([-1e-2, -1e-4, 0.0, 1e-4, 1e-2], np.float32)
    end = thermostat_step(
        *jnp.zeros((2, 5)),
        jnp.asarray(frictions),
        jnp.zeros(5),
        jnp.ones(5),
        lambda position: 0 * position,
        lambda thermostat: (thermostat, 0.5),
        step_size=1.0,
        temperature=0.3,
        thermostat_mass=jnp.inf,
    )
    np.testing.assert_allclose(end[1] ** 2, 2 * 0.5 * 0.3 * (1 - frictions), rtol=1e-4)
