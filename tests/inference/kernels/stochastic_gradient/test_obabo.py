"""Minibatch trajectories with an accept step: exact, reversible, and refused where they are not."""

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl.inference.kernels.stochastic_gradient.gradient_estimators import SVRG
from bayesnn_ppl.inference.kernels.stochastic_gradient.obabo import OBABO, obabo_step_with_work
from bayesnn_ppl.inference.kernels.stochastic_gradient.preconditioners import RMSProp
from tests.inference.kernels.known_moments import (
    LINEAR,
    NO_DATA,
    SETTINGS,
)

STEP = dict(step_size=8e-4, batch_size=16, steps_per_draw=6)


def test_a_trajectory_is_gone_back():
    """With the minibatches in reverse order, the momentum turned, and noises that undo the first.

    The work has the opposite sign, and detailed balance of the noise holds path by path.
    """
    generator = np.random.default_rng(0)
    steps, temperature, mass = 5, 0.4, np.array([0.5, 1.0, 4.0])
    settings = dict(step_size=0.3, momentum_decay=0.6, temperature=temperature, mass=mass)
    half, spread = np.sqrt(0.6), np.sqrt(temperature * 0.4 * mass)
    batches = generator.normal(size=(steps + 1, 3, 3))
    gradients = [lambda at, b=b: b @ at + at**3 for b in batches]
    with jax.enable_x64(True):
        position, momentum = start = generator.normal(size=(2, 3))
        noises = generator.normal(size=(steps, 2, 3))
        gradient, works, back = gradients[0](position), [], []

        def undo(before, noise):
            """The noise that leads from the turned end of a fluctuation to its turned start."""
            after = half * before + spread * noise
            return after, (-before + half * after) / spread

        for number in range(steps):
            after, reverse_first = undo(momentum, noises[number, 0])
            before = (position, after, gradient)
            position, momentum, gradient, work = obabo_step_with_work(
                position, momentum, gradient, noises[number], gradients[number + 1], **settings
            )
            h = np.sqrt(settings["step_size"])
            leapfrogged = before[1] - 0.5 * h * (before[2] + gradient)
            _, reverse_second = undo(leapfrogged, noises[number, 1])
            back.append((reverse_second, reverse_first))
            works.append(work)
        momentum = -momentum
        for number in reversed(range(steps)):
            position, momentum, gradient, work = obabo_step_with_work(
                position, momentum, gradient, back[number], gradients[number], **settings
            )
            np.testing.assert_allclose(work, -works[number], rtol=1e-9)
    np.testing.assert_allclose([position, -momentum], start, rtol=1e-9)


def wall(x, y=None, *, batch_size=None):
    """N(0, 1), with a NaN where θ > 1."""
    theta = numpyro.sample("theta", dist.Normal(0.0, 1.0))
    numpyro.factor("wall", 0 * jax.numpy.sqrt(1.0 - theta))
    with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
        x, y = bnn.minibatch(x, y)
        numpyro.sample("y", dist.Normal(0.0, 1.0).expand([x.shape[0]]), obs=y)


def test_a_trajectory_into_a_hole_is_rejected():
    kernel = OBABO(wall, step_size=0.2, batch_size=4, steps_per_draw=3)
    posterior = bnn.sample(kernel, *NO_DATA, warmup=10, draws=300, **SETTINGS)
    theta = posterior.draws["theta"]
    assert np.isfinite(theta).all() and theta.max() <= 1
    assert not posterior.statistics["stopped"].any()
    assert len(np.unique(theta[:, -100:])) > 100


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"step_size": lambda step: 1e-3}, TypeError, "whose steps are all alike, must be a num"),
        ({"temperature": 0.0}, ValueError, "`temperature` of OBABO, which does not change, must"),
        ({"minibatches": "epoch"}, TypeError, "OBABO has no `minibatches`: its accept step is"),
        ({"noise": 0.5}, TypeError, "OBABO has no `noise`"),
        ({"gradient": SVRG(every=10)}, ValueError, "an anchor that follows the trajectory"),
        ({"preconditioner": RMSProp(mode="plain")}, ValueError, "must not change while draws"),
    ],
)
def test_what_would_not_be_exact_is_refused(settings, error, words):
    with pytest.raises(error, match=words):
        OBABO(LINEAR, **(STEP | settings))


def test_rows_that_come_a_few_at_a_time_are_refused():
    with pytest.raises(ValueError, match="by the log density of all rows"):
        OBABO(LINEAR, **STEP).given_rows(100, 5)
