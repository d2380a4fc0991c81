"""Stein variational gradient descent on known distributions."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy import integrate

import bayesnn_ppl as bnn
from bayesnn_ppl.inference.approximations.trained_networks.stein import (
    median_bandwidth,
    stein_direction,
)
from tests.inference.kernels.known_moments import scale_model
from tests.inference.kernels.normal_means import NormalMeans

Repulsive = bnn.approximations.Repulsive


def test_the_direction_is_that_of_the_paper():
    generator = np.random.default_rng(0)
    particles, scores = generator.normal(5.0, 1.0, size=(2, 7, 3))
    expected = np.zeros_like(particles)
    for i in range(7):
        for j in range(7):
            apart = particles[i] - particles[j]
            kernel = np.exp(-apart @ apart / 1.7)
            expected[i] += (kernel * scores[j] + 2 / 1.7 * kernel * apart) / 7
    with jax.enable_x64(True):
        np.testing.assert_allclose(stein_direction(particles, scores, 1.7), expected, rtol=1e-9)
        pairs = np.square(particles[:, None] - particles).sum(-1)
        h = np.median(pairs[np.triu_indices(7, 1)]) / np.log(7)
        assert float(median_bandwidth(pairs)) == pytest.approx(h, rel=1e-9)
        np.testing.assert_allclose(
            stein_direction(particles, scores), stein_direction(particles, scores, h), rtol=1e-9
        )


@pytest.mark.parametrize("repulsion", [True, False])
def test_particles_on_a_gaussian(repulsion):
    covariance = np.array([[1.0, 0.6], [0.6, 0.5]])
    mean, precision = np.array([1.0, -2.0]), np.linalg.inv(covariance)
    start = 0.3 * jax.random.normal(jax.random.key(0), (100, 2))

    def step(_, particles):
        scores = -(particles - mean) @ precision
        direction = stein_direction(particles, scores)
        if not repulsion:  # the second part does not depend on the scores
            direction -= stein_direction(particles, jnp.zeros_like(scores))
        return particles + 0.2 * direction

    found = np.asarray(jax.jit(lambda s: jax.lax.fori_loop(0, 1500, step, s))(start), float)
    np.testing.assert_allclose(found.mean(0), mean, atol=0.02)
    if repulsion:
        np.testing.assert_allclose(np.cov(found.T), covariance, rtol=0.1)
    else:
        assert found.var(0).max() < 1e-3  # they have collapsed


def test_the_posterior_of_normal_means_at_its_temperature():
    fitted = bnn.fit(
        Repulsive(
            bnn.cold(NormalMeans.model, 0.5),
            members=60,
            epochs=1500,
            batch_size=None,
            learning_rate=0.02,
        ),
        *NormalMeans.data(),
        progress=False,
    )
    theta = fitted.draws["theta"][:, 0].astype(float)
    np.testing.assert_allclose(theta.mean(0), NormalMeans.mean, atol=0.01)
    # A quarter where the temperature counts twice, twice as much where it never does.
    np.testing.assert_allclose(theta.var(0, ddof=1), 0.5 / 65, rtol=0.2)
    assert fitted.diagnose().status == "fitted"


def test_minibatches_and_the_jacobian_of_a_scale():
    y = np.array([0.3, -0.8, 1.1], dtype=np.float32)
    fitted = bnn.fit(
        Repulsive(scale_model, members=40, epochs=1500, batch_size=2, optimiser=optax.adam(0.02)),
        y[:, None],
        y,
        progress=False,
    )
    logs = np.log(fitted.draws["scale"][:, 0].astype(float))

    def moments(power):
        """Of log s, under density s^power: 1 with the Jacobian of log, 0 without."""

        def density(u, k):
            s = np.exp(u)
            log_p = -0.5 * s**2 - 3 * u - 0.5 * np.sum(y**2) / s**2 + power * u
            return u**k * np.exp(log_p)

        total, mean, square = (integrate.quad(density, -4, 3, args=(k,))[0] for k in range(3))
        return mean / total, square / total - (mean / total) ** 2

    mean, variance = moments(1)
    assert abs(moments(0)[0] - mean) > 0.1
    assert logs.mean() == pytest.approx(mean, abs=0.05)
    assert logs.var(ddof=1) == pytest.approx(variance, rel=0.3)


def test_a_network_and_what_is_told(regression):
    network = bnn.models.mlp(hidden=(4,))
    seen = []
    short = Repulsive(
        network, members=5, epochs=20, batch_size=16, learning_rate=0.01, schedule=None
    )
    one, same = (
        bnn.fit(short, *regression, progress=False, callback=lambda p: seen.append(p.done))
        for _ in range(2)
    )
    assert one.draws["net.Dense_0.kernel"].shape == (5, 1, 2, 4)
    for name, array in one.draws.items():
        np.testing.assert_array_equal(array, same.draws[name])
    assert one.predict(regression[0][:3]).epistemic.min() > 0
    verdict = one.diagnose().verdict
    assert "still falling" in verdict and "5 particles repel each other in 18" in verdict
    assert seen[-1] == 20
    wild = Repulsive(network, members=3, epochs=30, optimiser=optax.sgd(1e30), batch_size=16)
    assert bnn.fit(wild, *regression, progress=False).diagnose().status == "not converged"
    ended = bnn.fit(short, *regression, progress=False, callback=lambda progress: True)
    assert ended.provenance["interrupted"] and "interrupted" in ended.diagnose().verdict


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"members": 1}, ValueError, "must be at least 2"),
        ({"bandwidth": 0.0}, ValueError, "`bandwidth` must be positive"),
        ({"optimiser": optax.sgd(0.1), "learning_rate": 0.1}, ValueError, "would be ignored"),
        ({"optimiser": optax.sgd}, TypeError, "Call it"),
        ({"epochs": 0}, ValueError, "`epochs` must be at least 1"),
        ({"start": "mode"}, ValueError, "`start` must be one of"),
    ],
)
def test_bad_arguments_are_refused_in_a_sentence(options, error, words, regression):
    with pytest.raises(error, match=words):
        bnn.fit(Repulsive(bnn.models.linear(), **options), *regression, progress=False)
