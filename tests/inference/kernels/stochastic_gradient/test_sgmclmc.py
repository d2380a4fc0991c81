"""Microcanonical steps on minibatches: one step in NumPy, and the distribution of many."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl.inference.kernels.stochastic_gradient.microcanonical.sgmclmc import (
    SGMCLMC,
    isokinetic_step,
)
from bayesnn_ppl.inference.kernels.stochastic_gradient.preconditioners import GradientNoise

ROWS, DIMENSION, PRIOR = 128, 60, 0.2
DEVIATIONS = np.repeat([0.5, 1.0, 1.5], 20)  # of the rows, of which the model believes 1
EPSILON, DECAY, TEMPERATURE, BATCH_SIZE = 5e-5, 0.9, 0.7, 8
SETTINGS = dict(step_size=EPSILON, momentum_decay=DECAY, temperature=TEMPERATURE, steps_per_draw=80)
PRECISION = np.full(DIMENSION, ROWS + PRIOR**-2)
CENTRES = np.linspace(-1, 1, DIMENSION)

# θ of the model is not a network's.
pytestmark = pytest.mark.filterwarnings("ignore:The posterior at temperature")


def model(x, y=None, *, batch_size=None):
    """θ ~ N(0, 0.2²), rows y ~ N(θ, I): a strong prior, and noise that is alike everywhere."""
    theta = numpyro.sample("theta", dist.Normal(0.0, PRIOR).expand([DIMENSION]).to_event(1))
    with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
        x, y = bnn.minibatch(x, y)
        numpyro.sample("y", dist.Normal(theta, 1.0).to_event(1), obs=y)


def data():
    """Rows whose coordinates are exactly uncorrelated and have the spreads above."""
    noise = np.random.default_rng(0).normal(size=(ROWS, DIMENSION))
    basis = np.linalg.qr(np.column_stack([np.ones(ROWS), noise]))[0][:, 1:]
    y = np.sqrt(ROWS) * DEVIATIONS * basis + CENTRES
    return np.zeros((ROWS, 1), np.float32), y.astype(np.float32)


def run(kernel, **settings):
    """θ (chain, draw, 60), and the run."""
    common = dict(warmup=200, draws=600, chains=8, seed=1, progress=False)
    posterior = bnn.sample(kernel, *data(), **(common | settings))
    return posterior.draws["theta"].astype(float), posterior


def by_noise(values):
    """Means over the quiet, the middle and the noisy third of the coordinates."""
    return np.asarray(values).reshape(3, -1).mean(axis=1)


def predicted(precision, noise, mass=1.0, *, flow=False):
    """Var(θ) and the kick angle for many coordinates, on exp(-Σλθ²/2T), noise of variances C.

    Then angle and cosine of a kick do not fluctuate, and the step is linear in θ, m and the noise,
    with coefficients that depend on the variances. These are found by iteration. `flow`: with the
    kick that is the exact flow.
    """
    temperature = TEMPERATURE
    precision, noise, d = precision / mass, noise / mass, len(precision)
    h, length = EPSILON**0.5, (len(precision) * temperature) ** 0.5
    position, cross = temperature / precision, np.zeros(d)
    for _ in range(200):
        size = np.sqrt(np.sum(precision**2 * position + noise))
        cosine = -np.sum(precision * cross) / (length * size)
        angle = h * size / length
        shrink = np.exp(-angle) if flow else (2 - angle) / (2 + angle)
        turned = 2 * np.arctan(shrink * np.tan(np.arccos(cosine) / 2))
        keep = np.sin(turned) / np.sqrt(1 - cosine**2)
        push = (np.cos(turned) - keep * cosine) * length / size
        state = np.empty((d, 3))  # Var θ, Cov(θ, q), Var q
        for i in range(d):
            kick = np.array([[1, 0], [-push * precision[i], keep]])
            refresh = np.array([[1, h * (1 + DECAY) / 2], [0, DECAY]])
            spread = np.sqrt(temperature * (1 - DECAY**2)) * np.array([h / 2, 1])
            through = refresh @ [0, push]
            forced = np.outer(spread, spread) + noise[i] * np.outer(through, through)
            step = refresh @ kick
            moments = np.linalg.solve(np.eye(4) - np.kron(step, step), forced.ravel())
            state[i] = moments[[0, 1, 3]]
        position, cross = state[:, 0], state[:, 1]
    np.testing.assert_allclose(state[:, 2].sum(), length**2, rtol=1e-6)
    return position / mass, angle


NOISE = ROWS**2 / BATCH_SIZE * DEVIATIONS**2  # of the gradient, in each coordinate
TARGET = TEMPERATURE / PRECISION


def numpy_step(position, momentum, gradient, noise, mass, temperature, decay, most):
    """The step by angles and hyperbolic functions, with none of the library's."""
    d = len(position)
    q = momentum / np.sqrt(mass)
    u = q / np.linalg.norm(q)
    force = -gradient / np.sqrt(mass)
    e = force / np.linalg.norm(force)
    angle = np.sqrt(EPSILON * d / temperature) * np.linalg.norm(force) / (d - 1)
    delta, c = 2 * np.arctanh(min(angle, most) / 2), u @ e
    u = (u + e * (np.sinh(delta) + c * (np.cosh(delta) - 1))) / (
        np.cosh(delta) + c * np.sinh(delta)
    )
    speed = np.sqrt(d * temperature)
    position = position + 0.5 * np.sqrt(EPSILON) * speed * u / np.sqrt(mass)
    q = decay * speed * u + np.sqrt(temperature * (1 - decay**2)) * noise
    q = speed * q / np.linalg.norm(q)
    position = position + 0.5 * np.sqrt(EPSILON) * q / np.sqrt(mass)
    return position, np.sqrt(mass) * q, angle


@pytest.mark.parametrize("size", [1.0, 1e3])
def test_one_step_is_that_of_numpy(size):
    rng = np.random.default_rng(3)
    position, momentum, gradient, noise = rng.normal(size=(4, 7)) * [[1], [3], [30 * size], [1]]
    mass = rng.uniform(0.2, 3.0, size=7)
    expected = numpy_step(position, momentum, gradient, noise, mass, 0.6, 0.8, 1.5)
    assert (expected[2] > 1.5) == (size > 1), "a kick that is shortened, and one that is not"
    settings = dict(step_size=EPSILON, momentum_decay=0.8, temperature=0.6, mass=mass)
    found = isokinetic_step(position, momentum, gradient, noise, max_angle=1.5, **settings)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5)
    assert np.sum(np.asarray(found[1]) ** 2 / mass) == pytest.approx(0.6 * 7, rel=1e-5)


def test_ends_of_the_range():
    """No gradient turns nothing; β = 0 forgets everything, β = 1 nothing."""
    momentum, noise = np.random.default_rng(0).normal(size=(2, 5)).astype(np.float32)
    common = dict(step_size=1e-2)
    still = isokinetic_step(
        jnp.zeros(5), momentum, jnp.zeros(5), noise, momentum_decay=1.0, **common
    )
    ahead = np.sqrt(5) * momentum / np.linalg.norm(momentum)
    np.testing.assert_allclose(still[1], ahead, rtol=1e-5)
    np.testing.assert_allclose(still[0], 0.1 * ahead, rtol=1e-5)
    forgot = isokinetic_step(
        jnp.zeros(5), momentum, jnp.ones(5), noise, momentum_decay=0.0, **common
    )
    np.testing.assert_allclose(forgot[1], np.sqrt(5) * noise / np.linalg.norm(noise), atol=1e-4)


class WithoutPrior(SGMCLMC):
    """The negative control: the gradient of the likelihood alone."""

    def _step(self, position, variables, gradient, normals, settings):
        def likelihood(theta):
            return gradient(theta) - theta / PRIOR**2

        return super()._step(position, variables, likelihood, normals, settings)


def test_all_rows_give_the_posterior():
    kernel = SGMCLMC(model, batch_size=ROWS, minibatches="epoch", **SETTINGS)
    theta, posterior = run(kernel)
    expected, angle = predicted(PRECISION, 0 * NOISE)
    np.testing.assert_allclose(expected / TARGET, 1, atol=1e-6)
    np.testing.assert_allclose(posterior.statistics["kick_angle"].mean(), angle, rtol=0.02)
    np.testing.assert_allclose(by_noise(theta.var(axis=(0, 1)) / TARGET), 1, atol=0.015)
    mean = data()[1].sum(axis=0) / PRECISION
    error = np.sqrt(TARGET / theta[..., 0].size)
    assert np.abs((theta.mean(axis=(0, 1)) - mean) / error).max() < 5
    wrong = run(WithoutPrior(model, batch_size=ROWS, minibatches="epoch", **SETTINGS))[0]
    assert by_noise(wrong.var(axis=(0, 1)) / TARGET).min() > 1.15
    assert np.abs((wrong.mean(axis=(0, 1)) - mean) / error).max() > 50


def test_noise_that_differs_moves_heat_between_coordinates():
    """As much as predicted: quiet coordinates are a third too narrow, noisy ones too wide."""
    theta, posterior = run(SGMCLMC(model, batch_size=BATCH_SIZE, **SETTINGS))
    expected, angle = predicted(PRECISION, NOISE)
    kappa = EPSILON * NOISE / (2 * TEMPERATURE * (1 - DECAY))
    simple = (1 + kappa) / (1 + kappa.mean())
    np.testing.assert_allclose(by_noise(expected / TARGET), by_noise(simple), rtol=0.02)
    variances = theta.var(axis=(0, 1))
    np.testing.assert_allclose(by_noise(variances / expected), 1, atol=0.025)
    np.testing.assert_allclose(posterior.statistics["kick_angle"].mean(), angle, rtol=0.025)
    assert variances[:20].max() < 0.75 * TARGET[0] and variances[40:].min() > 1.25 * TARGET[0]
    # The momenta have the temperature on the whole, whatever the noise.
    np.testing.assert_allclose(posterior.statistics["kinetic_temperature"], TEMPERATURE, rtol=1e-4)


def test_with_the_preconditioner_of_the_noise_the_target_is_left():
    """The same chain as above, whose coordinates are off by a third without it."""
    kernel = SGMCLMC(model, batch_size=BATCH_SIZE, preconditioner=GradientNoise(), **SETTINGS)
    theta, posterior = run(kernel)
    np.testing.assert_allclose(by_noise(theta.var(axis=(0, 1)) / TARGET), 1, atol=0.02)
    angle = predicted(PRECISION, NOISE, DEVIATIONS**2 / np.mean(DEVIATIONS**2))[1]
    np.testing.assert_allclose(posterior.statistics["kick_angle"].mean(), angle, rtol=0.03)


def test_even_noise_has_no_bias_where_the_exact_flow_has_one():
    """The prediction for many coordinates: a kick by the flow leaves a part δ²/12 too much."""
    for size in (0.25, 1.0, 4.0):
        even = np.full(DIMENSION, size * NOISE.mean())
        np.testing.assert_allclose(predicted(PRECISION, even)[0] / TARGET, 1, atol=1e-6)
        variance, angle = predicted(PRECISION, even, flow=True)
        half = angle / 2
        np.testing.assert_allclose(variance / TARGET, half / np.tanh(half), rtol=1e-4)


def test_even_noise_heats_steep_coordinates_a_little():
    """By the docstring's part of first order in ελ, where curvatures differ; their mean stays."""
    precision = PRECISION * np.linspace(0.25, 1.75, DIMENSION)
    for size in (0.0, 0.25, 1.0):
        even = np.full(DIMENSION, size * NOISE.mean())
        kappa = EPSILON * even / (2 * TEMPERATURE * (1 - DECAY))
        ratio = predicted(precision, even)[0] * precision / TEMPERATURE
        part = EPSILON / 4 * (precision - precision.mean()) * kappa / (1 + kappa)
        np.testing.assert_allclose(ratio.mean(), 1, atol=1e-6)
        np.testing.assert_allclose(ratio - 1, part, atol=1e-6 + 0.05 * np.abs(part).max())


class Flow(SGMCLMC):
    """The negative control of the kick: steps by the exact flow."""

    def _step(self, position, variables, gradient, normals, settings):
        def lengthened(theta):
            # The flow's angle δ is that of a gradient of angle 2 tanh(δ/2) here.
            found = gradient(theta) / jnp.sqrt(settings.mass)
            size = jnp.linalg.norm(found)
            scale = jnp.sqrt(settings.step_size * DIMENSION / settings.temperature)
            scale = scale / (DIMENSION - 1)
            return gradient(theta) * 2 * jnp.tanh(0.5 * scale * size) / (scale * size)

        return super()._step(position, variables, lengthened, normals, settings)


@pytest.mark.check
def test_large_kicks_of_even_noise():
    """Angles near 1: no bias, where the flow leaves variances 8 % too large."""
    settings = SETTINGS | {"step_size": 5 * EPSILON, "steps_per_draw": 40, "max_angle": 1.99}
    settings |= {"batch_size": BATCH_SIZE, "preconditioner": GradientNoise()}
    theta, posterior = run(SGMCLMC(model, **settings))
    angle = posterior.statistics["kick_angle"].mean()
    assert 0.9 < angle < 1.1
    assert np.mean(theta.var(axis=(0, 1)) / TARGET) == pytest.approx(1, abs=0.03)
    half = angle / 2
    flow = run(Flow(model, **settings))[0]
    assert np.mean(flow.var(axis=(0, 1)) / TARGET) == pytest.approx(half / np.tanh(half), abs=0.03)


def test_one_coordinate_is_too_few():
    def one_coordinate(x, y=None, *, batch_size=None):
        theta = numpyro.sample("theta", dist.Normal(0.0, 1.0))
        with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
            x, y = bnn.minibatch(x, y)
            numpyro.sample("y", dist.Normal(theta, 1.0), obs=y)

    kernel = SGMCLMC(one_coordinate, batch_size=2, step_size=1e-3)
    with pytest.raises(ValueError, match="at least two unconstrained coordinates.*Use SGHMC"):
        bnn.sample(kernel, np.zeros((4, 1)), np.zeros(4), warmup=2, draws=2, chains=1, seed=0)


def test_a_temperature_that_changes_changes_the_length():
    kernel = SGMCLMC(
        model,
        batch_size=BATCH_SIZE,
        **SETTINGS
        | {"temperature": bnn.schedules.Ramp(0.6, 100, initial=0.3), "steps_per_draw": 10},
    )
    posterior = bnn.sample(kernel, *data(), warmup=0, draws=12, chains=2, seed=0, progress=False)
    kinetic = np.asarray(posterior.statistics["kinetic_temperature"])[..., 0]
    told = np.asarray(posterior.statistics["temperature"])
    np.testing.assert_allclose(kinetic, told, rtol=1e-4)
    assert told[0, 0] < 0.35 and told[0, -1] == pytest.approx(0.6)
