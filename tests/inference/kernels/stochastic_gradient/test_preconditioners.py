"""Preconditioners: what they average, and which of them leave the posterior as it is."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl.inference.kernels.stochastic_gradient.preconditioners import (
    Adagrad,
    GradientNoise,
    Layerwise,
    RMSProp,
    check_preconditioner,
)
from tests.inference.kernels.known_moments import LINEAR

SIZES = (2, 3)
GRADIENTS = np.random.default_rng(0).normal(size=(12, 5)).astype(np.float32) * [1, 2, 0.1, 1, 1]


@functools.partial(jax.jit, static_argnums=0)
def states_of(preconditioner, gradients):
    """M after each gradient, shape (steps, 5)."""

    def step(state, indexed):
        index, gradient = indexed
        state = preconditioner.update(state, gradient, index, gradient)
        return state, jnp.broadcast_to(preconditioner.mass(state), gradient.shape)

    start = preconditioner.start(5, SIZES)
    return jax.lax.scan(step, start, (jnp.arange(len(gradients)), gradients))[1]


@pytest.mark.parametrize("mode", ["frozen", "corrected", "plain"])
def test_rmsprop(mode):
    square, expected = np.mean(GRADIENTS[0] ** 2), []
    for gradient in GRADIENTS:
        square = 0.8 * square + 0.2 * gradient**2
        expected.append(0.01 + np.sqrt(square))
    found = states_of(RMSProp(decay=0.8, floor=0.01, mode=mode), GRADIENTS)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_adagrad():
    first = np.full((1, 5), np.mean(GRADIENTS[0] ** 2))
    mean = [np.vstack([first, GRADIENTS[: k + 1] ** 2]).mean(axis=0) for k in range(12)]
    found = states_of(Adagrad(floor=0.01), GRADIENTS)
    np.testing.assert_allclose(found, 0.01 + np.sqrt(mean), rtol=1e-5)


@pytest.mark.parametrize("mode", ["frozen", "plain"])
def test_gradient_noise(mode):
    """Of successive differences: alike at first, and from the fifth on exponentially."""
    variance, expected = np.zeros(5), [np.ones(5)]
    for steps, pair in enumerate(zip(GRADIENTS, GRADIENTS[1:], strict=False), 1):
        weight = max(1 / steps, 0.2)
        variance = (1 - weight) * variance + weight * 0.5 * (pair[1] - pair[0]) ** 2
        seen = steps + 1
        relative = (seen * variance / variance.mean() + 10) / (seen + 10)
        expected.append(np.maximum(relative, 0.5))
    found = states_of(GradientNoise(decay=0.8, floor=0.5, mode=mode), GRADIENTS)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_gradient_noise_is_the_variance_around_a_gradient_that_moves():
    rng = np.random.default_rng(1)
    spread = np.array([0.5, 1.0, 1.5, 1.0, 1.0])
    drift = 50 * np.sin(np.arange(20000)[:, None] / 500) * [0, 0, 0, 1, 3]
    gradients = (drift + spread * rng.normal(size=(20000, 5))).astype(np.float32)
    found = states_of(GradientNoise(decay=0.9999), gradients)[-1]
    np.testing.assert_allclose(found, spread**2 / np.mean(spread**2), rtol=0.08)


def test_gradients_without_noise_leave_the_mass():
    found = states_of(GradientNoise(), np.ones((4, 5), np.float32))
    np.testing.assert_array_equal(found, 1.0)


def test_layerwise():
    """After steps 5 and 10, from the last three gradients each; one number for each array."""
    gradients = GRADIENTS * np.linspace(1, 4, 12)[:, None] ** [1, 1, 0, 0, 0]
    found = np.asarray(states_of(Layerwise(every=5, gradients=3, floor=0.01), gradients))
    np.testing.assert_array_equal(found[:4], 1.0)
    for end in (5, 10):
        square = (gradients[end - 3 : end] ** 2).mean(axis=0)
        scales = np.sqrt(0.01 + np.array([square[:2].mean(), square[2:].mean()]))
        expected = np.repeat(scales / scales.min(), SIZES)
        stretch = found[end - 1 : end + 2]  # until the next estimate it stays
        np.testing.assert_allclose(stretch, np.tile(expected, (len(stretch), 1)), rtol=1e-5)
    assert np.abs(found[9] / found[4] - 1).max() > 0.2


# A density on the line that is not a Gaussian, U(θ) = θ⁴/4 + θ, on a grid that spans it.
GRID = np.linspace(-3.2, 2.4, 561)
FLOOR = 1.0


def potential(theta):
    return theta**4 / 4 + theta


def moments(weights):
    weights = weights / weights.sum()
    mean = (weights * GRID).sum()
    return np.array([mean, (weights * (GRID - mean) ** 2).sum()])


TRUE = moments(np.exp(-potential(GRID)))
PLAIN = moments(np.exp(-potential(GRID)) * (FLOOR + np.abs(GRID**3 + 1)))


def stationary(mode, step_size, temperature=1.0, weight=None):
    """Mean and variance of the SGLD chain's stationary distribution, without a random number.

    With decay 0, M and Γ are functions of θ, and the chain's transition density is Gaussian.
    `weight` is that of Γ, T where nothing is said.
    """
    preconditioner = RMSProp(decay=0.0, floor=FLOOR, mode=mode)

    def mass_and_drift(theta):
        state = preconditioner.start(1, (1,))
        curvature = jax.hessian(potential)(theta)[None]
        state = preconditioner.update(state, jax.grad(potential)(theta)[None], 0, curvature)
        return preconditioner.mass(state)[0], jnp.ravel(preconditioner.drift(state))[0]

    mass, drift = jax.vmap(mass_and_drift)(jnp.asarray(GRID))
    mass, drift = np.asarray(mass, float), np.asarray(drift, float)
    weight = temperature if weight is None else weight
    mean = GRID + step_size * (-(GRID**3 + 1) / mass + weight * drift)
    variance = 2 * step_size * temperature / mass
    kernel = np.exp(-((GRID - mean[:, None]) ** 2) / (2 * variance[:, None]))
    kernel /= kernel.sum(axis=1, keepdims=True)
    for _ in range(14):  # the power 2¹⁴ of the transition
        kernel = kernel @ kernel
        kernel /= kernel.sum(axis=1, keepdims=True)
    return moments(kernel[0])


def test_the_correction_makes_it_right_and_without_it_it_is_biased():
    """By quadrature: the corrected chain's error goes with ε, the plain one's has a limit."""
    coarse, fine = (np.abs(stationary("corrected", step) - TRUE) for step in (0.02, 0.01))
    assert (fine < [0.002, 0.01]).all()
    assert abs(coarse[1] / fine[1] - 2) < 0.15
    plain = stationary("plain", 0.01)
    assert abs(PLAIN[1] / TRUE[1] - 1.46) < 0.01  # what the docstring says of its variance
    assert (np.abs(plain - PLAIN) < [0.02, 0.02]).all()
    assert abs(plain[1] - TRUE[1]) > 0.2


def test_the_drift_counts_with_the_temperature():
    """At T = 1/2: Γ with weight T is right, with weight 1 or 0 it is not."""
    target = moments(np.exp(-potential(GRID) / 0.5))
    right, twice, plain = (
        np.abs(stationary(mode, 0.01, temperature=0.5, weight=weight) - target)
        for mode, weight in (("corrected", None), ("corrected", 1.0), ("plain", 0.0))
    )
    assert (right < [0.005, 0.01]).all()
    assert twice[1] > 0.04 and plain[1] > 0.08


@functools.partial(jax.jit, static_argnums=(0, 1))
def simulated(mode, weight):
    """Mean and variance of many chains at decay .9, ε = .01, time averages of 24 units."""
    preconditioner = RMSProp(decay=0.9, floor=FLOOR, mode=mode)
    step_size, steps = 0.01, 3000

    def chain(key):
        def step(carry, key):
            index, theta, state, total = carry
            gradient, curvature = theta**3 + 1, 3 * theta**2
            state = preconditioner.update(state, gradient, index, curvature)
            mass = preconditioner.mass(state)
            theta = (
                theta
                + step_size * (weight * preconditioner.drift(state) - gradient / mass)
                + jnp.sqrt(2 * step_size / mass) * jax.random.normal(key, (1,))
            )
            powers = jnp.where(index < 600, 0.0, jnp.stack([theta, theta**2]))
            return (index + 1, theta, state, total + powers), None

        begin = (0, jnp.full(1, -0.6), preconditioner.start(1, (1,)), jnp.zeros((2, 1)))
        end, _ = jax.lax.scan(step, begin, jax.random.split(key, steps))
        return end[3][:, 0] / (steps - 600)

    first, second = jax.vmap(chain)(jax.random.split(jax.random.key(0), 1000)).mean(axis=0)
    return jnp.stack([first, second - first**2])


@pytest.mark.check
def test_the_correction_of_an_average_is_that_of_what_it_averages():
    """With decay .9 the whole Γ is right but for O(ε/(1 - decay)).

    Its share of the newest gradient, 0.1·Γ, leaves most of the bias; the standard error of the
    variance is 0.003.
    """
    right = np.asarray(simulated("corrected", 1.0))
    newest_only = np.asarray(simulated("corrected", 0.1))
    assert (np.abs(right - TRUE) < [0.06, 0.03]).all()
    assert newest_only[1] > 1.2 * TRUE[1]
    assert simulated("plain", 1.0)[1] > 1.2 * TRUE[1]


def test_drift_is_the_derivative_of_the_inverse_mass():
    preconditioner = RMSProp(decay=0.0, floor=0.3, mode="corrected")

    def state_at(theta):
        curvature = jnp.diag(jax.hessian(lambda t: potential(t).sum())(theta))
        gradient = jax.grad(lambda t: potential(t).sum())(theta)
        return preconditioner.update(preconditioner.start(3, (3,)), gradient, 0, curvature)

    theta = jnp.asarray([-1.7, 0.2, 1.1])
    inverse = jax.jacobian(lambda t: 1 / preconditioner.mass(state_at(t)))(theta)
    np.testing.assert_allclose(preconditioner.drift(state_at(theta)), np.diag(inverse), rtol=1e-5)
    still = preconditioner.update(preconditioner.start(3, (3,)), jnp.zeros(3), 0, jnp.ones(3))
    np.testing.assert_array_equal(preconditioner.drift(still), 0.0)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: RMSProp(decay=1.0), ValueError, "`decay` of RMSProp must be below 1"),
        (lambda: RMSProp(decay=-0.1), ValueError, "`decay` of RMSProp must be positive"),
        (lambda: RMSProp(floor=0.0), ValueError, "`floor` of RMSProp must be positive"),
        (lambda: RMSProp(mode="plane"), ValueError, "Did you mean `plain`"),
        (lambda: GradientNoise(decay=1.0), ValueError, "`decay` of GradientNoise must be below 1"),
        (lambda: GradientNoise(decay=0.0), ValueError, "`decay` of GradientNoise must be positive"),
        (lambda: GradientNoise(floor=1.0), ValueError, "`floor` of GradientNoise, a share"),
        (lambda: GradientNoise(mode="frosen"), ValueError, "Did you mean `frozen`"),
        (lambda: Adagrad(mode="corrected"), ValueError, "`mode='corrected'` of Adagrad"),
        (lambda: Layerwise(every=10), ValueError, "32, but M is reset every 10 steps"),
        (lambda: Layerwise(every=0), ValueError, "`every` of Layerwise must be at least 1"),
        (lambda: check_preconditioner("rmsprop", "`preconditioner` of SGLD"), TypeError, "SGLD"),
        (lambda: check_preconditioner(RMSProp, "`preconditioner` of SGLD"), TypeError, "SGLD"),
    ],
)
def test_settings_out_of_range(make, error, words):
    with pytest.raises(error, match=words):
        make()


@pytest.mark.parametrize(
    ("preconditioner", "steps_per_draw", "needs"),
    [
        (RMSProp(), 4, 1),
        (Adagrad(), 4, 1),
        (GradientNoise(), 1, 2),
        (Layerwise(every=12, gradients=3), 4, 3),
        (Layerwise(every=12, gradients=3), (7, 5), 2),
    ],
)
def test_a_warm_up_too_short_for_an_estimate_is_refused(
    regression, preconditioner, steps_per_draw, needs
):
    """One draw fewer than `needs` would leave the identity, and the record would name another."""
    settings = dict(step_size=1e-6, batch_size=8, steps_per_draw=steps_per_draw)
    kernel = bnn.kernels.SGHMC(LINEAR, preconditioner=preconditioner, **settings)
    run = dict(draws=1, chains=1, progress=False)
    with pytest.raises(ValueError, match="is estimated in the warm-up.*Give a longer warm-up"):
        bnn.sample(kernel, *regression, warmup=needs - 1, **run)
    assert bnn.sample(kernel, *regression, warmup=needs, **run).provenance["draws"] == 1


def test_a_preconditioner_that_never_stops_needs_no_warm_up(regression):
    settings = dict(step_size=1e-6, batch_size=8, steps_per_draw=4)
    kernel = bnn.kernels.SGHMC(LINEAR, preconditioner=RMSProp(mode="plain"), **settings)
    made = bnn.sample(kernel, *regression, warmup=0, draws=1, chains=1, progress=False)
    assert made.provenance["kernel_settings"]["preconditioner"].startswith("RMSProp")
