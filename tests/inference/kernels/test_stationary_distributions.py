"""Every linear step has, on a Gaussian, exactly the distribution that its docstring says."""

import jax.numpy as jnp
import numpy as np
import pytest

from bayesnn_ppl.inference.kernels.stochastic_gradient import integrators
from bayesnn_ppl.inference.schedules.simple import Cyclical
from tests.inference.kernels.stationary_distributions import (
    METHODS,
    explicit,
    stationary_distribution,
)

PRECISION = np.array([[3.0, 1.0, 0.4], [1.0, 2.0, -0.3], [0.4, -0.3, 1.0]])
MASS = np.array([0.5, 1.0, 4.0])
# T is not 1, M is not I, and they are not small: nothing is right by accident.
SETTINGS = dict(step_size=0.09, momentum_decay=0.7, temperature=0.4, mass=MASS)


def of_curvature(function, mass):
    """f(K) of the curvature K = M^{-1/2} Λ M^{-1/2}, a symmetric matrix, and M^{1/2}."""
    root = np.sqrt(np.broadcast_to(mass, 3))
    values, vectors = np.linalg.eigh(PRECISION / np.outer(root, root))
    return (vectors * function(values)) @ vectors.T, root


def documented(name, *, step_size, momentum_decay, temperature, mass):
    """Covariances of θ and m, F T/λ and F_m T for every curvature λ; None without momenta."""
    factor, momentum_factor = FACTORS[name]
    beta = momentum_decay
    position, root = of_curvature(lambda k: factor(step_size * k, beta) / k, mass)
    position = temperature * position / np.outer(root, root)
    if momentum_factor is None:
        return position, None
    momentum, _ = of_curvature(lambda k: momentum_factor(step_size * k, beta), mass)
    return position, temperature * momentum * np.outer(root, root)


def ones(a, beta):
    return np.ones_like(a)


# a = ελ: the factors F of Var(θ) = F T/λ, and those of Var(M^{-1/2} m)/T.
FACTORS = {
    "SGLD": (lambda a, b: 1 / (1 - a / 2), None),
    "symplectic_euler": (
        lambda a, b: 1 / (1 - a / (2 * (1 + b))),
        lambda a, b: 2 / (1 + b) / (1 - a / (2 * (1 + b))),
    ),
    "BBK": (lambda a, b: 1 / (1 - a / 4), lambda a, b: 1 / (1 - a / 4)),
    "BAOAB": (ones, lambda a, b: 1 - a / 4),
    "OBABO": (lambda a, b: 1 / (1 - a / 4), ones),
    "leimkuhler_matthews": (ones, None),
}


@pytest.mark.parametrize("mass", [np.ones(3), MASS], ids=["identity", "preconditioned"])
@pytest.mark.parametrize("name", FACTORS)
def test_the_distribution_is_exactly_the_documented_one(name, mass):
    settings = SETTINGS | {"mass": mass}
    found = stationary_distribution(METHODS[name], PRECISION, settings)
    position, momentum = documented(name, **settings)
    np.testing.assert_allclose(found.part(0, 3), position, atol=1e-12)
    if momentum is not None:
        np.testing.assert_allclose(found.part(1, 3), momentum, atol=1e-12)


FAULTS = {
    "√2 missing": dict(noise=2**-0.5),
    "friction of drift and noise 10 % apart": dict(noise=0.9**0.5),
    "noise without temperature": dict(noise=SETTINGS["temperature"] ** -0.5),
    "noise without mass": dict(noise=MASS**-0.5),
    "gradient counted on each of 2 devices": dict(gradient=2.0),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", FACTORS)
def test_faults_are_caught(name, fault):
    """By 5 % or more, where the right one agrees to twelve digits."""
    found = stationary_distribution(METHODS[name], PRECISION, SETTINGS, **FAULTS[fault]).part(0, 3)
    position, _ = documented(name, **SETTINGS)
    assert np.linalg.norm(found - position) > 0.05 * np.linalg.norm(position)


def bias(method, *cycle, part=0):
    """The relative error of the covariance of θ, or of m, against the target's."""
    target = SETTINGS["temperature"] * (np.diag(MASS) if part else np.linalg.inv(PRECISION))
    found = stationary_distribution(method, PRECISION, *cycle).part(part, 3)
    return np.linalg.norm(found - target) / np.linalg.norm(target)


def constant(step_size):
    """The settings at a friction of 1.3."""
    return SETTINGS | dict(step_size=step_size, momentum_decay=1 - 1.3 * step_size**0.5)


def order(method, **settings):
    """Of the bias in h = √ε at constant friction, from two steps of which one is half."""
    coarse, fine = (bias(method, constant(size), **settings) for size in (1e-4, 2.5e-5))
    return np.log2(coarse / fine)


@pytest.mark.parametrize(
    ("name", "position", "momentum"),
    [
        ("SGLD", 2, None),
        ("symplectic_euler", 2, 1),
        ("BBK", 2, 2),
        ("BAOAB", "exact", 2),
        ("OBABO", 2, "exact"),
        ("position_verlet", 2, 2),
        ("leimkuhler_matthews", "exact", None),
    ],
)
def test_the_order_in_h_is_that_of_theory(name, position, momentum):
    for part, expectation in enumerate((position, momentum)):
        if expectation == "exact":
            assert bias(METHODS[name], constant(0.04), part=part) < 1e-12
        elif expectation is not None:
            assert abs(order(METHODS[name], part=part) - expectation) < 0.03


def old_momentum_step(position, momentum, gradient, noise, *, step_size, mass, **settings):
    """Symplectic Euler as others have it: the position moves with the momentum of before."""
    settings |= dict(step_size=step_size, mass=mass)
    _, new = integrators.symplectic_euler_step(position, momentum, gradient, noise, **settings)
    return position + jnp.sqrt(step_size) * momentum / mass, new


def test_the_old_momentum_is_caught():
    """+23 % and +0.5 %, and first order instead of second."""
    wrong, right = explicit(old_momentum_step), METHODS["symplectic_euler"]
    settings = dict(step_size=0.08**2, momentum_decay=1 - 0.08 * 1.3, temperature=1.0)
    settings["mass"] = np.ones(3)
    excess = {
        m: 3 * stationary_distribution(m, 3 * np.eye(3), settings).covariance[0, 0] - 1
        for m in (wrong, right)
    }
    assert abs(excess[wrong] - 0.23) < 0.005 and abs(excess[right] - 0.005) < 0.0005
    assert abs(order(wrong) - 1) < 0.05


def cycle(peak, steps):
    """Settings of every step of a cycle: the time step is scaled by c, and friction constant."""
    schedule = Cyclical(peak, steps_per_cycle=steps)
    sizes = np.array([schedule(k) for k in range(steps)], float)
    decays = integrators.scaled_decay(1 - 1.3 * np.sqrt(peak), sizes, peak)
    return [
        SETTINGS | dict(step_size=size, momentum_decay=decay)
        for size, decay in zip(sizes, np.asarray(decays, float), strict=True)
    ]


@pytest.mark.parametrize(
    ("name", "expectation"),
    [("symplectic_euler", 1), ("BBK", 1), ("BAOAB", 2), ("OBABO", 2), ("position_verlet", 2)],
)
def test_the_order_of_a_cycle(name, expectation):
    """At its end, when it has twice as many steps of half the length.

    The momenta of symplectic Euler and BBK are those of half a step earlier, whose length is not
    that of the next: this costs them an order.
    """
    coarse, fine = (bias(METHODS[name], *cycle(4 / steps**2, steps)) for steps in (80, 160))
    assert abs(np.log2(coarse / fine) - expectation) < 0.15


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_caught_in_a_cycle(fault):
    steps = cycle(4 / 80**2, 80)
    right = stationary_distribution(METHODS["BAOAB"], PRECISION, *steps).part(0, 3)
    wrong = stationary_distribution(METHODS["BAOAB"], PRECISION, *steps, **FAULTS[fault]).part(0, 3)
    assert np.linalg.norm(wrong - right) > 0.05 * np.linalg.norm(right)
