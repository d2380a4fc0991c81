"""Adaptive thermostat Monte Carlo: added noise makes way for the noise of the gradients."""

import numpy as np
import pytest

from bayesnn_ppl.inference.kernels.stochastic_gradient.atmc import ATMC, adaptive_rates
from tests.inference.kernels.normal_means import NormalMeans
from tests.inference.kernels.stationary_distributions import thermostat_distribution
from tests.inference.kernels.stochastic_gradient.test_sgnht import (
    BATCH_SIZE,
    EPSILON,
    INJECTED,
    RUN,
    SETTINGS,
    TARGET,
    TEMPERATURE,
)

pytestmark = pytest.mark.filterwarnings("ignore:The posterior at temperature")


def test_friction_and_noise_are_those_of_a_stationary_distribution():
    """ζ - A = ξ is what the proof in the module needs; ζ is at least γ, and A is not negative."""
    thermostat = np.linspace(-3, 5, 33)
    friction, injected = adaptive_rates(thermostat, 1.5)
    np.testing.assert_allclose(friction - injected, thermostat, atol=1e-6)
    assert (friction >= 1.5).all() and (injected >= 0).all()
    assert (injected[thermostat >= 1.5] == 0).all()


class Steady(ATMC):
    """The negative control: the thermostat changes friction, and noise is added regardless."""

    def _step(self, position, variables, gradient, normals, settings):
        held = variables._replace(thermostat=0 * variables.thermostat)
        return super()._step(position, held, gradient, normals, settings)


def test_the_target_under_noise_of_unknown_size():
    settings = dict(step_size=EPSILON, temperature=TEMPERATURE, mass=1.0)
    rows = NormalMeans.quadratic_rows()
    expected, thermostat = thermostat_distribution(
        rows,
        BATCH_SIZE,
        settings,
        lambda z: (np.maximum(INJECTED, z), np.maximum(INJECTED - z, 0.0)),
    )
    # SGNHT's minus what is injected; the last is larger than the friction wanted.
    np.testing.assert_allclose(thermostat / INJECTED, [0.18, 0.74, 1.68], rtol=0.03)
    np.testing.assert_allclose(np.diag(expected.part(0, 3)) / np.diag(TARGET[1]), 1, atol=0.02)
    kernel = ATMC(NormalMeans.model, **SETTINGS)
    assert NormalMeans.deviation(kernel, expected.mean[:3], expected.part(0, 3), **RUN)[0] < 4.5
    held = Steady(NormalMeans.model, **SETTINGS)
    assert NormalMeans.deviation(held, *TARGET, **RUN)[0] > 20
