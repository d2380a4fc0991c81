"""The microcanonical integrator against an implementation in NumPy, and what it conserves."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesnn_ppl.inference.kernels.common.microcanonical_dynamics import (
    MINIMAL_NORM,
    Point,
    direction,
    kick,
    refresh,
    trajectory,
)

CURVATURES = np.geomspace(0.5, 30.0, 6)


def gradient(x):
    """Of Σ (c x²/2 + x⁴/40): neither isotropic nor Gaussian."""
    return CURVATURES * x + 0.1 * x**3


def potential(x):
    return 0.5 * np.sum(CURVATURES * x**2) + 0.025 * np.sum(x**4)


def reference_kick(u, force, time):
    """The flow by its hyperbolic functions."""
    size = np.linalg.norm(force)
    e, delta = force / size, time * size / (len(u) - 1)
    along = np.sinh(delta) + (u @ e) * (np.cosh(delta) - 1)
    growth = np.cosh(delta) + (u @ e) * np.sinh(delta)
    return (u + along * e) / growth, (len(u) - 1) * np.log(growth)


def reference_step(x, u, step_size, scale):
    kinetic = 0.0
    shares = (MINIMAL_NORM, 0.5, 1 - 2 * MINIMAL_NORM, 0.5, MINIMAL_NORM)
    for name, share in zip("BABAB", shares, strict=True):
        if name == "A":
            x = x + share * step_size * scale * u
        else:
            u, change = reference_kick(u, -scale * gradient(x), share * step_size)
            kinetic += change
    return x, u, kinetic


def start(seed=0):
    generator = np.random.default_rng(seed)
    x, u = generator.normal(size=(2, 6))
    return x, u / np.linalg.norm(u)


def run(x, u, *, steps, step_size, scale=1.0):
    point, kinetic = trajectory(
        Point(jnp.asarray(x), jnp.asarray(u), jnp.asarray(gradient(x))),
        gradient,
        steps=steps,
        step_size=step_size,
        scale=scale,
    )
    return *map(np.asarray, point), float(kinetic)


@pytest.mark.parametrize("delta", [1e-8, 1e-3, 0.3, 0.999, 1.001, 8.0, 100.0])
@pytest.mark.parametrize("cosine", [-0.999, -0.6, 0.0, 1e-3, 1.0])
def test_a_kick_is_the_exact_flow(delta, cosine):
    """In both branches and at their seam, along, against and across the gradient."""
    e, across = np.eye(5)[:2]
    u = cosine * e + np.sqrt(1 - cosine**2) * across
    expected, change = reference_kick(u, 3.0 * e, 4 * delta / 3.0)
    with jax.enable_x64(True):
        turned, kinetic = kick(jnp.asarray(u), jnp.asarray(3.0 * e), 4 * delta / 3.0)
        np.testing.assert_allclose(turned, expected, atol=1e-12)
        assert abs(kinetic - change) < 1e-12 * max(1.0, abs(change))
    turned, kinetic = kick(jnp.float32(u), jnp.float32(3.0 * e), jnp.float32(4 * delta / 3.0))
    assert turned.dtype == jnp.float32 and np.isfinite(turned).all()
    np.testing.assert_allclose(kinetic, change, rtol=1e-4, atol=2e-6 * delta)


def test_an_infinitely_strong_kick_aligns_and_no_force_does_nothing():
    u = direction(jnp.arange(1.0, 6.0))
    force = jnp.array([0.0, 0.0, -2.0, 0.0, 0.0])
    turned, kinetic = kick(u, force, 1e6)
    np.testing.assert_allclose(turned, force / 2, atol=1e-6)
    np.testing.assert_allclose(kinetic, 4 * (5e5 + np.log((1 - u[2]) / 2)), rtol=1e-6)
    # Straight against it the direction is 0/0 once 1 + u·e is below the spacing of numbers.
    for time in (1e-3, 1.0, 30.0, 1e6):
        turned, kinetic = kick(-force / 2, force, time)
        assert np.isfinite(turned).all() and np.isfinite(kinetic)
        assert 0 < jnp.vdot(turned, turned) < 4
    turned, kinetic = kick(u, jnp.zeros(5), 1.0)
    np.testing.assert_allclose(turned, u, rtol=1e-6)
    assert kinetic == 0


def test_the_kinetic_energy_is_the_volume_of_the_map():
    """-ΔK = log|det| of u -> u' between tangent spaces of the sphere: what an accept step needs."""
    x, u = start(3)
    force = -gradient(x)
    with jax.enable_x64(True):
        turned, kinetic = kick(jnp.asarray(u), jnp.asarray(force), 0.7)
        jacobian = jax.jacfwd(lambda u: kick(u, jnp.asarray(force), 0.7)[0])(jnp.asarray(u))
        turned, kinetic, jacobian = np.asarray(turned), float(kinetic), np.asarray(jacobian)
    before, after = (np.linalg.svd(v[None])[2][1:] for v in (u, turned))
    volume = np.linalg.slogdet(after @ jacobian @ before.T)[1]
    assert abs(kinetic) > 1
    np.testing.assert_allclose(volume, -kinetic, rtol=1e-10)


@pytest.mark.parametrize("scale", [1.0, np.linspace(0.2, 1.5, 6)])
@pytest.mark.parametrize("steps", [1, 4])
def test_steps_are_those_of_the_reference(steps, scale):
    x, u = start()
    expected_x, expected_u, total = x, u, 0.0
    for _ in range(steps):
        expected_x, expected_u, change = reference_step(expected_x, expected_u, 0.3, scale)
        total += change
    with jax.enable_x64(True):
        found_x, found_u, last, kinetic = run(x, u, steps=steps, step_size=0.3, scale=scale)
    np.testing.assert_allclose(found_x, expected_x, atol=1e-12)
    np.testing.assert_allclose(found_u, expected_u, atol=1e-12)
    np.testing.assert_allclose(last, gradient(expected_x), atol=1e-11)
    np.testing.assert_allclose(kinetic, total, atol=1e-11)


def test_a_trajectory_goes_back_where_it_came_from():
    x, u = start(1)
    with jax.enable_x64(True):
        there_x, there_u, _, there = run(x, u, steps=50, step_size=0.2)
        back_x, back_u, _, back = run(there_x, -there_u, steps=50, step_size=0.2)
    assert np.linalg.norm(there_x - x) > 0.5
    np.testing.assert_allclose(back_x, x, atol=1e-8)
    np.testing.assert_allclose(back_u, -u, atol=1e-8)
    np.testing.assert_allclose(back, -there, atol=1e-8)


def test_the_energy_error_has_its_order():
    """Of one step ε³, of a trajectory of fixed length ε²."""
    x, u = start(2)

    def error(steps, step_size):
        end, _, _, kinetic = run(x, u, steps=steps, step_size=step_size)
        return abs(kinetic + potential(end) - potential(x))

    with jax.enable_x64(True):
        step = np.log2(error(1, 0.004) / error(1, 0.002))
        way = np.log2(error(50, 0.04) / error(100, 0.02))
    assert abs(step - 3) < 0.15
    assert abs(way - 2) < 0.15


def test_a_refreshment_forgets_at_its_rate_and_keeps_the_sphere():
    """The cosine with the old velocity is e^{-t/L}; two halves are a whole to O(1/d)."""
    generator = np.random.default_rng(0)
    u = direction(jnp.float32(generator.normal(size=2000)))
    noise = jnp.float32(generator.normal(size=(3, 200, 2000)))
    turn = jax.vmap(refresh, in_axes=(None, 0, None, None))
    turned = turn(u, noise[0], 0.7, 1.4)
    np.testing.assert_allclose(jnp.sum(turned**2, axis=1), 1.0, rtol=1e-5)
    assert abs(jnp.mean(turned @ u) - np.exp(-0.5)) < 0.01
    halves = jax.vmap(refresh, in_axes=(0, 0, None, None))(
        turn(u, noise[1], 0.35, 1.4), noise[2], 0.35, 1.4
    )
    assert abs(jnp.mean(halves @ u) - np.exp(-0.5)) < 0.01
    # The negative control: half the time is another rate.
    assert abs(jnp.mean(turn(u, noise[1], 0.35, 1.4) @ u) - np.exp(-0.5)) > 0.1
    # However long the time, a velocity.
    assert np.isfinite(turn(u, noise[0], 1e9, 1.0)).all()
