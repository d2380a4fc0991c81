"""The exact stationary distribution of a step that is linear in its state and its noise.

On a Gaussian target every integrator of Langevin dynamics maps state and noise to the next state
by two matrices, s' = A s + C ξ. Both are read off the step's own Jacobians, and the stationary
covariance solves the discrete Lyapunov equation Σ = A Σ Aᵀ + C Cᵀ: no draws, no randomness.
With minibatches A and C are random; the second moments still close.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import solve_discrete_lyapunov
from scipy.optimize import root

from bayesnn_ppl.inference.kernels.stochastic_gradient import integrators
from bayesnn_ppl.inference.kernels.stochastic_gradient.sgld import sgld_step
from bayesnn_ppl.inference.kernels.stochastic_gradient.sgnht import thermostat_step
from tests.inference.kernels.known_moments import NOISE


class Method(NamedTuple):
    """A step in the form that the distributions are read from.

    Attributes:
        step: (state, noises, gradient_at, **settings) -> state. The state has shape (parts, d),
            the position first; noises (noises, d).
        parts, noises: vectors of the state, and normals of one step.
    """

    step: Callable[..., Any]
    parts: int = 2
    noises: int = 1


def explicit(function: Callable[..., Any]) -> Method:
    """Of a step that takes the gradient at the position it starts from."""

    def step(state: Any, noises: Any, gradient_at: Any, **settings: Any) -> Any:
        position, momentum = state
        return jnp.stack(function(position, momentum, gradient_at(position), noises[0], **settings))

    return Method(step)


def splitting(function: Callable[..., Any], noises: int = 1) -> Method:
    """Of a step that hands the gradient at its end to the next one."""

    def step(state: Any, normals: Any, gradient_at: Any, **settings: Any) -> Any:
        noise = normals[0] if noises == 1 else tuple(normals)
        return jnp.stack(function(*state, noise, gradient_at, **settings))

    return Method(step, parts=3, noises=noises)


def _position_verlet(state: Any, noises: Any, gradient_at: Any, **settings: Any) -> Any:
    position, momentum = state
    return jnp.stack(
        integrators.position_verlet_step(position, momentum, noises[0], gradient_at, **settings)
    )


def _overdamped(state: Any, noises: Any, gradient_at: Any, **settings: Any) -> Any:
    del settings["momentum_decay"]
    return sgld_step(state[0], gradient_at(state[0]), noises[0], **settings)[None]


def _leimkuhler_matthews(state: Any, noises: Any, gradient_at: Any, **settings: Any) -> Any:
    del settings["momentum_decay"]
    position, before = state
    position = integrators.leimkuhler_matthews_step(
        position, gradient_at(position), (before, noises[0]), **settings
    )
    return jnp.stack([position, noises[0]])


def _held_thermostat(
    position: Any,
    momentum: Any,
    gradient: Any,
    noise: Any,
    gradient_at: Any,
    *,
    friction: Any,
    injected: Any,
    **settings: Any,
) -> tuple[Any, Any, Any]:
    """A thermostat's step while the thermostat is too heavy to move: linear."""
    held = (position, momentum, jnp.zeros(()), gradient, noise, gradient_at)
    position, momentum, _, gradient = thermostat_step(
        *held, lambda _: (friction, injected), thermostat_mass=jnp.inf, **settings
    )
    return position, momentum, gradient


METHODS = {
    "SGLD": Method(_overdamped, parts=1),
    "symplectic_euler": explicit(integrators.symplectic_euler_step),
    "BBK": explicit(integrators.bbk_step),
    "BAOAB": splitting(integrators.baoab_step),
    "OBABO": splitting(integrators.obabo_step, noises=2),
    "position_verlet": Method(_position_verlet),
    "leimkuhler_matthews": Method(_leimkuhler_matthews),
}
HELD_THERMOSTAT = splitting(_held_thermostat)


class Rows(NamedTuple):
    """Quadratic potentials of single rows: ∇Û is the minibatch's mean of H_i θ - v_i.

    Attributes:
        matrices: H_i, shape (N, d, d).
        vectors: v_i, shape (N, d).
    """

    matrices: Any
    vectors: Any


class Stationary(NamedTuple):
    """Mean (n,) and covariance (n, n) of the state, which has n = parts·d entries."""

    mean: Any
    covariance: Any

    def part(self, number: int, dimension: int) -> Any:
        """The covariance of a vector of the state: 0 is the position."""
        own = slice(number * dimension, (number + 1) * dimension)
        return self.covariance[own, own]


@partial(jax.jit, static_argnums=0)
def _jacobians(
    method: Method, rows: Rows, settings: dict[str, Any], noise: Any, gradient: Any
) -> tuple[Any, Any, Any]:
    """A (N, n, n), C (N, n, k) and the constant c (N, n) of the step on each row alone."""
    dimension = rows.vectors.shape[1]

    def step(state: Any, normals: Any, matrix: Any, vector: Any) -> Any:
        new = method.step(
            state.reshape(method.parts, dimension),
            noise * normals.reshape(method.noises, dimension),
            lambda position: gradient * (matrix @ position - vector),
            **settings,
        )
        return new.reshape(-1)

    def of(matrix: Any, vector: Any) -> tuple[Any, Any, Any]:
        # A point that is not special: by a step that is not linear the constant would change.
        state = jnp.arange(1.0, method.parts * dimension + 1)
        normals = jnp.ones(method.noises * dimension)
        transition, spread = jax.jacfwd(step, (0, 1))(state, normals, matrix, vector)
        constant = step(0 * state, 0 * normals, matrix, vector)
        rest = step(state, normals, matrix, vector) - transition @ state - spread @ normals
        return transition, spread, jnp.where(jnp.abs(rest - constant) < 1e-8, constant, jnp.nan)

    return jax.vmap(of)(*rows)


def jacobians(
    method: Method, rows: Rows, settings: dict[str, Any], *, noise: Any = 1.0, gradient: Any = 1.0
) -> tuple[Any, Any, Any]:
    """The same in float64; `noise` and `gradient` are factors that break the step on purpose.

    Raises:
        AssertionError: the step is not linear.
    """
    with jax.enable_x64(True):
        wide = jax.tree.map(lambda a: np.asarray(a, float), (rows, settings, noise, gradient))
        transition, spread, constant = map(np.asarray, _jacobians(method, *wide))
    assert np.isfinite(constant).all(), "the step is not linear"
    return transition, spread, constant


def stationary_distribution(
    method: Method, precision: Any, *cycle: dict[str, Any], **faults: Any
) -> Stationary:
    """The stationary distribution on exp(-θᵀΛθ/2T) of a step, or of several gone through for ever.

    Args:
        precision: Λ, shape (d, d).
        cycle: the settings of each step. The distribution is that at the end of a period.
        faults: see `jacobians`.

    Raises:
        ValueError: the steps are unstable.
    """
    rows = Rows(np.asarray(precision)[None], np.zeros((1, len(precision))))
    size = method.parts * len(precision)
    whole, noise = np.eye(size), np.zeros((size, size))
    for settings in cycle:
        (transition,), (spread,), _ = jacobians(method, rows, settings, **faults)
        whole = transition @ whole
        noise = transition @ noise @ transition.T + spread @ spread.T
    radius = np.abs(np.linalg.eigvals(whole)).max()
    if radius >= 1:
        raise ValueError(f"The step is unstable: its spectral radius is {radius:.4f}.")
    return Stationary(np.zeros(size), solve_discrete_lyapunov(whole, noise))


def minibatch_distribution(
    method: Method,
    rows: Rows,
    batch_size: int,
    settings: dict[str, Any],
    *,
    state_dependent: bool = True,
) -> Stationary:
    """The exact mean and covariance when each step takes B rows at random, with replacement.

    Every matrix of the step is the mean over its minibatch. With D_i = A_i - A for row i,

        μ = A μ + c,    Σ = A Σ Aᵀ + E[C Cᵀ] + (1/B) mean_i(η_i η_iᵀ + D_i Σ D_iᵀ),
        η_i = D_i μ + c_i - c.

    Args:
        state_dependent: whether the last term counts, the part of the gradient noise that
            changes with the state.
    """
    transitions, spreads, constants = jacobians(method, rows, settings)
    mean, spread, constant = transitions.mean(0), spreads.mean(0), constants.mean(0)
    size = len(mean)
    centre = np.linalg.solve(np.eye(size) - mean, constant)
    off, spread_off = transitions - mean, spreads - spread
    own = off @ centre + constants - constant
    noise = spread @ spread.T + (
        np.einsum("ijk,ilk->jl", spread_off, spread_off) + np.einsum("ij,il->jl", own, own)
    ) / (batch_size * len(off))
    operator = np.kron(mean, mean)
    if state_dependent:
        pairs = np.einsum("iab,icd->acbd", off, off).reshape(size**2, size**2)
        operator = operator + pairs / (batch_size * len(off))
    radius = np.abs(np.linalg.eigvals(operator)).max()
    if radius >= 1:
        raise ValueError(f"The second moments are unstable: their spectral radius is {radius:.4f}.")
    covariance = np.linalg.solve(np.eye(size**2) - operator, noise.reshape(-1))
    return Stationary(centre, covariance.reshape(size, size))


def thermostat_distribution(
    rows: Rows, batch_size: int, settings: dict[str, Any], rates: Callable[[Any], tuple[Any, Any]]
) -> tuple[Stationary, Any]:
    """The distribution under heavy thermostats, and where they stand.

    Each thermostat takes the value at which its momentum, averaged over the two moments of the
    step when it looks, has variance T M. Its own motion is left out.

    Args:
        rates: thermostats (d,) -> friction and injected friction, as of `thermostat_step`.
    """
    h, temperature = settings["step_size"] ** 0.5, settings["temperature"]
    d = rows.vectors.shape[1]
    kick = np.hstack([np.zeros((d, d)), np.eye(d), -0.5 * h * np.eye(d)])

    def held(thermostat: Any) -> tuple[Stationary, Any, Any]:
        friction, injected = rates(thermostat)
        own = settings | {"friction": friction, "injected": np.broadcast_to(injected, d)}
        return minibatch_distribution(HELD_THERMOSTAT, rows, batch_size, own), friction, injected

    def excess(thermostat: Any) -> Any:
        found, friction, injected = held(thermostat)
        before = np.diag(kick @ found.covariance @ kick.T) / settings["mass"]
        fluctuation = temperature * injected * -np.expm1(-2 * h * friction) / friction
        after = np.exp(-2 * h * friction) * before + fluctuation
        return 0.5 * (before + after) / temperature - 1

    found = root(excess, np.full(d, 1.5 * rates(np.zeros(d))[1]), tol=1e-10)
    if not found.success:
        raise ValueError(f"No thermostat holds the momenta at T: {found.message}")
    return held(found.x)[0], found.x


def regression_rows(x: Any, y: Any) -> Rows:
    """Of Bayesian linear regression, `closed_form`'s: θ ~ N(0, I), y ~ N(Φθ, σ²)."""
    phi = np.column_stack([x, np.ones(len(x))]).astype(float)
    weighted = len(x) * phi / NOISE**2
    matrices = weighted[:, :, None] * phi[:, None, :] + np.eye(phi.shape[1])
    return Rows(matrices, weighted * y[:, None])
