"""SGLD: its step, its law on a conjugate program, and what would break it."""

import jax.numpy as jnp
import numpy as np
import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl.inference.kernels.stochastic_gradient.sgld import SGLD, sgld_step
from tests.inference.kernels.known_moments import LINEAR
from tests.inference.test_exactness import closed_form, coefficients, worst_deviation

RUN = dict(warmup=30, draws=1000, chains=4, seed=1, progress=False, chain_method="sequential")
SETTINGS = dict(step_size=1e-4, batch_size=40, steps_per_draw=100, minibatches="epoch")


def test_the_step_by_hand():
    moved = sgld_step(
        jnp.asarray([1.0, 2.0]),
        jnp.asarray([4.0, -8.0]),
        jnp.asarray([1.0, -1.0]),
        step_size=0.02,
        temperature=4.0,
        mass=jnp.asarray([1.0, 4.0]),
        drift=jnp.asarray([0.0, 1.0]),
    )
    # √(2·0.02·4/M) is 0.4 and 0.2; the drift is 0.02·4·1.
    np.testing.assert_allclose(moved, [1 - 0.08 + 0.4, 2 + 0.04 + 0.08 - 0.2], rtol=1e-6)


class MissingRoot(SGLD):
    """Noise √ε where √(2ε) belongs: the temperature is half of what it says."""

    def _step(self, position, variables, gradient, normals, settings):
        normals = (normals[0] / jnp.sqrt(2.0),)
        return super()._step(position, variables, gradient, normals, settings)


@pytest.mark.parametrize("kernel", [SGLD, MissingRoot])
@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_law_of_the_conjugate_program(regression, kernel, temperature):
    """All rows in each step: no minibatch noise; the bias ελ/4 of a standard deviation is 0.4 %."""
    x, y = regression
    posterior = bnn.sample(kernel(LINEAR, temperature=temperature, **SETTINGS), x, y, **RUN)
    theta = coefficients(posterior)
    exact = closed_form(x, y, posterior_temperature=temperature)
    deviation = worst_deviation(theta, *exact)
    if kernel is MissingRoot:
        assert deviation > 6
        return
    assert deviation < 4.5
    wrong = closed_form(x, y, posterior_temperature=1.5 * temperature)
    assert worst_deviation(theta, *wrong) > 6
    assert posterior.provenance["posterior_temperature"] == temperature
    assert (posterior.statistics["temperature"] == np.float32(temperature)).all()
    assert "kinetic_temperature" not in posterior.statistics
