"""The teaching examples are right on all the data, and biased on minibatches as predicted."""

import jax.numpy as jnp
import numpy as np
import pytest

from bayesnn_ppl.inference.kernels.stochastic_gradient.biased_examples import (
    BiasedMinibatchHMC,
    BiasedMinibatchMetropolis,
)
from tests.inference.kernels.known_moments import worst_deviation
from tests.inference.kernels.normal_means import NormalMeans
from tests.inference.kernels.stationary_distributions import Method, stationary_distribution

LEAPFROGS, RUN = 12, dict(warmup=50, draws=1500)
TARGET = (NormalMeans.mean, NormalMeans.covariance)
ALL = dict(batch_size=NormalMeans.rows, minibatches="epoch")


def heated(step_size, leapfrogs, batch_size):
    """Stationary variances of minibatch HMC on `NormalMeans`, over the posterior's.

    One trajectory is a linear step of the position and the gradient there; the gradient noise is
    the same everywhere, of standard deviation N s/√B in a coordinate whose rows have s.
    """
    deviation = NormalMeans.rows * NormalMeans.deviations / np.sqrt(batch_size)

    def trajectory(state, noises, gradient_at, *, step_size, deviation):
        position, gradient = state
        h, momentum = jnp.sqrt(step_size), noises[0]
        for noise in noises[1:]:
            momentum = momentum - 0.5 * h * gradient
            position = position + h * momentum
            gradient = gradient_at(position) + deviation * noise
            momentum = momentum - 0.5 * h * gradient
        return jnp.stack([position, gradient])

    method = Method(trajectory, parts=2, noises=1 + leapfrogs)
    precision = np.linalg.inv(NormalMeans.covariance)
    found = stationary_distribution(
        method, precision, dict(step_size=step_size, deviation=deviation)
    )
    return np.diag(found.part(0, 3)) / np.diag(NormalMeans.covariance)


def hmc(step_size=4e-4, leapfrogs=LEAPFROGS, **settings):
    return BiasedMinibatchHMC(
        NormalMeans.model,
        step_size=step_size,
        num_leapfrogs=leapfrogs,
        steps_per_draw=leapfrogs,
        **settings,
    )


def test_minibatch_hmc_is_too_hot_as_predicted():
    ratios = heated(4e-4, LEAPFROGS, 16)
    assert (ratios > 1.04).all() and ratios[-1] > 1.3
    predicted = np.diag(ratios) * NormalMeans.covariance
    theta = NormalMeans.draws(hmc(batch_size=16), **RUN)
    assert worst_deviation(theta, NormalMeans.mean, predicted) < 4.5
    assert worst_deviation(theta, *TARGET) > 8


@pytest.mark.check
def test_minibatch_hmc_is_right_on_all_the_data():
    assert NormalMeans.deviation(hmc(**ALL), *TARGET, **RUN)[0] < 4.5


def test_the_heat_falls_only_with_the_cost():
    """Half the step at the same trajectory length: twice the gradients, half the bias."""
    coarse, fine = heated(4e-4, LEAPFROGS, 16) - 1, heated(1e-4, 2 * LEAPFROGS, 16) - 1
    np.testing.assert_allclose(coarse / fine, 2, rtol=0.1)


@pytest.mark.parametrize(
    ("settings", "right"),
    [(ALL, True), pytest.param({"batch_size": 16}, False, marks=pytest.mark.check)],
    ids=["all", "minibatch"],
)
def test_minibatch_acceptance(settings, right):
    kernel = BiasedMinibatchMetropolis(
        NormalMeans.model, step_size=0.03, steps_per_draw=20, **settings
    )
    deviation, variances = NormalMeans.deviation(kernel, *TARGET, **RUN)
    if right:
        assert deviation < 4.5
    else:
        assert deviation > 8 and (variances > 1.1 * np.diag(TARGET[1])).all()
