"""How far one wild target moves the mean function, by quadrature over a line's two weights."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.infer.util import log_density

import bayesnn_ppl as bnn

X = np.linspace(-1, 1, 15)[:, None].astype(np.float32)
Y = (0.5 * X[:, 0] + 0.1 * np.sin(40 * X[:, 0])).astype(np.float32)
DISTANCES = np.array([0.5, 2.0, 8.0, 32.0, 128.0])


def shifts(likelihood):
    """|E f(0) with the middle target moved up by each distance − E f(0) without|."""
    model = bnn.bayesian_network(bnn.nn.MLP((), outputs=1), bnn.priors.normal(10.0), likelihood)
    slope, bias = np.meshgrid(np.linspace(-0.5, 1.5, 61), np.linspace(-1, 11, 1201))

    @jax.jit
    def mean_at_zero(y):
        def density(slope, bias):
            theta = {"net/Dense_0.kernel": slope[None, None], "net/Dense_0.bias": bias[None]}
            return log_density(model, (X, y), {}, theta)[0]

        log_p = jax.vmap(density)(slope.ravel(), bias.ravel())
        p = jax.nn.softmax(log_p)
        return (p * bias.ravel()).sum()

    wild = np.zeros(len(Y), np.float32)
    wild[len(Y) // 2] = 1.0
    base = mean_at_zero(jnp.asarray(Y))
    return np.array([float(mean_at_zero(Y + np.float32(d) * wild) - base) for d in DISTANCES])


def test_under_gaussian_noise_the_shift_grows_with_the_distance():
    """Negative control: without bound, in proportion."""
    found = shifts(bnn.likelihoods.gaussian(0.3))
    np.testing.assert_allclose(found / DISTANCES, found[0] / DISTANCES[0], rtol=0.05)
    assert found[-1] > 5


def test_under_laplace_noise_the_shift_saturates():
    found = shifts(bnn.likelihoods.laplace(0.3))
    assert found[-1] == pytest.approx(found[2], rel=0.02) and 0 < found[-1] < 0.3


def test_under_student_t_noise_the_outlier_is_forgotten():
    found = shifts(bnn.likelihoods.student_t(4.0, 0.3))
    largest = found.max()
    assert largest < 0.1 and found.argmax() < 3
    # The force falls as (ν + 1)/r.
    assert found[-1] < 0.1 * largest
    assert found[-1] / found[-2] == pytest.approx(DISTANCES[-2] / DISTANCES[-1], rel=0.3)
