"""What warm-ups adapt with: the step size, first searched and then averaged, and masses."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp

__all__ = [
    "DualAveraging",
    "Mass",
    "RunningVariance",
    "adam_step",
    "check_mass",
    "collected",
    "inverse_mass_of",
    "search_step_size",
    "variance_windows",
]

Mass = Literal["identity", "diagonal", "fisher"]

_SQUARES_DECAY = 0.95


class DualAveraging(NamedTuple):
    """A step size that is moved until the acceptance probability has a wanted mean.

    With acceptance α_t, target δ, γ = 0.05, t₀ = 10, κ = 0.75 and μ = log(10 ε₀):

        H_t = (1 - 1/(t + t₀)) H_{t-1} + (δ - α_t)/(t + t₀)
        log ε_{t+1} = μ - (√t/γ) H_t
        log ε̄_{t+1} = t^{-κ} log ε_{t+1} + (1 - t^{-κ}) log ε̄_t

    Attributes:
        step_size: ε, for the next draw of the warm-up; shape ().
        averaged: ε̄, for the draws after the warm-up; shape ().
        centre: μ; shape ().
        shortfall: H, the mean of δ - α; shape ().
        count: t, the updates so far; shape ().

    References:
        Hoffman and Gelman (2014), The No-U-Turn Sampler, JMLR 15, section 3.2.
    """

    step_size: Any
    averaged: Any
    centre: Any
    shortfall: Any
    count: Any

    @classmethod
    def start(cls, step_size: Any) -> "DualAveraging":
        """Before any update: ε = ε̄ = ε₀, which counts for nothing once there is an update."""
        step_size = jnp.asarray(step_size, jnp.result_type(step_size, float))
        nothing = jnp.zeros_like(step_size)
        return cls(step_size, step_size, jnp.log(10 * step_size), nothing, nothing)

    def current(self, warming: Any) -> Any:
        """The step size of a draw: ε in the warm-up, ε̄ after it."""
        return jnp.where(warming, self.step_size, self.averaged)

    def update(self, accept_prob: Any, target: float) -> "DualAveraging":
        """The step size after a draw; an acceptance probability of NaN counts as 0."""
        accept_prob = jnp.where(jnp.isnan(accept_prob), 0.0, accept_prob)
        count = self.count + 1
        shortfall = self.shortfall + (target - accept_prob - self.shortfall) / (count + 10)
        log_step = self.centre - jnp.sqrt(count) / 0.05 * shortfall
        # A step of exactly 0 would leave no way back.
        log_step = jnp.maximum(log_step, jnp.log(jnp.finfo(log_step.dtype).tiny) + 1)
        weight = count**-0.75
        log_averaged = weight * log_step + (1 - weight) * jnp.log(self.averaged)
        return DualAveraging(
            jnp.exp(log_step), jnp.exp(log_averaged), self.centre, shortfall, count
        )


def search_step_size(log_ratio: Callable[[Any], Any], step_size: Any, *, wanted: Any = True) -> Any:
    """Double or halve a step size until the acceptance of one step crosses 0.8.

    Dual averaging from a first guess that is wrong by orders of magnitude overshoots for tens of
    draws; from here it does not.

    Args:
        log_ratio: step size -> log acceptance ratio of one step; NaN counts as a rejection.
        step_size: where the search begins, shape (). It ends at most a factor 2⁵⁰ away.
        wanted: False to leave the step size as it is, without an evaluation.

    References:
        Hoffman and Gelman (2014), JMLR 15, Algorithm 4.
    """
    step_size = jnp.asarray(step_size, jnp.result_type(step_size, float))

    def crosses(carry: Any) -> Any:
        step, factor, done, count = carry
        good = log_ratio(step) > jnp.log(0.8)
        first = count == 0
        factor = jnp.where(first, jnp.where(good, 2.0, 0.5).astype(step.dtype), factor)
        done = ~first & (good != (factor > 1))
        return jnp.where(done, step, step * factor), factor, done, count + 1

    carry = (step_size, jnp.ones_like(step_size), ~jnp.asarray(wanted), jnp.zeros((), jnp.int32))
    return jax.lax.while_loop(lambda carry: ~carry[2] & (carry[3] < 51), crosses, carry)[0]


def adam_step(gradient: Any, squares: Any, updates: Any, rate: float) -> tuple[Any, Any, Any]:
    """How far Adam moves a scalar up a gradient, and what it remembers: squares and updates.

    Without momentum, and with squares remembered for twenty updates, as ChEES has it.
    """
    # A gradient whose square overflows would stop Adam for good.
    useful = jnp.isfinite(gradient**2) & (gradient != 0)
    gradient = jnp.where(useful, gradient, 0.0)
    updates = updates + useful
    squares = jnp.where(
        useful, _SQUARES_DECAY * squares + (1 - _SQUARES_DECAY) * gradient**2, squares
    )
    mean_square = squares / (1 - _SQUARES_DECAY ** jnp.maximum(updates, 1))
    tiny = jnp.finfo(gradient.dtype).tiny
    return rate * gradient / jnp.sqrt(jnp.maximum(mean_square, tiny)), squares, updates


class RunningVariance(NamedTuple):
    """Mean and variance of the vectors seen so far, coordinate by coordinate (Welford 1962).

    Attributes:
        count: how many; shape ().
        mean: shape (d,).
        squares: the sum of squared deviations from the mean, shape (d,).
    """

    count: Any
    mean: Any
    squares: Any

    @classmethod
    def start(cls, like: Any) -> "RunningVariance":
        """Nothing seen yet, for vectors of the shape and dtype of `like`."""
        nothing = jnp.zeros_like(like)
        return cls(jnp.zeros((), nothing.dtype), nothing, nothing)

    def update(self, vector: Any) -> "RunningVariance":
        """One more vector of shape (d,)."""
        count = self.count + 1
        deviation = vector - self.mean
        mean = self.mean + deviation / count
        return RunningVariance(count, mean, self.squares + deviation * (vector - mean))

    def variance(self) -> Any:
        """The sample variance, shape (d,), drawn to 0.001 with the weight of five vectors.

        The shrinkage is Stan's: n/(n+5) s² + 0.001·5/(n+5), so that few draws, or a coordinate
        that has not moved, do not make a step infinitely long or short.
        """
        n = self.count
        sample = self.squares / jnp.maximum(n - 1, 1)
        return n / (n + 5) * sample + 1e-3 * 5 / (n + 5)


def check_mass(mass: Any, kernel: str) -> Mass:
    """`mass`, or a ValueError that names the kernel and the masses there are."""
    if mass not in get_args(Mass):
        names = ", ".join(f'"{name}"' for name in get_args(Mass))
        raise ValueError(f"`mass` of {kernel} is one of {names}, not {mass!r}.")
    return mass


def collected(mass: Mass, points: Any, gradients: Any) -> Any:
    """What the warm-up takes variances of for a mass: θ, and for "fisher" ∇U(θ) behind it.

    Args:
        mass: which.
        points, gradients: θ and ∇U(θ), shape (..., d).

    Returns:
        Shape (..., d), or (..., 2d) for "fisher".
    """
    return jnp.concatenate([points, gradients], axis=-1) if mass == "fisher" else points


def inverse_mass_of(mass: Mass, moments: RunningVariance) -> Any:
    """The diagonal of M⁻¹, shape (d,), from the moments of what was `collected`.

    "diagonal": the variances of θ. "fisher": √(variance of θ / variance of ∇U), which among all
    diagonal masses makes the target's Fisher divergence from a normal distribution smallest. On
    a normal target of covariance Σ these are Σᵢᵢ and √(Σᵢᵢ / (Σ⁻¹)ᵢᵢ), the geometric mean of the
    variance with and without the other coordinates given.

    References:
        Seyboldt, Carlson and Carpenter (2026), arXiv:2603.18845.
    """
    variance = moments.variance()
    if mass != "fisher":
        return variance
    points, gradients = jnp.split(variance, 2)
    return jnp.sqrt(points / gradients)


def variance_windows(num_warmup: int) -> tuple[int, tuple[int, ...]]:
    """When a warm-up estimates variances: `(first, ends)`.

    Draws from `first` on are collected; at each of `ends` (a count of draws made) the estimate
    is taken and collection restarts. Stan's schedule: 75 draws for the step size alone,
    windows of 25, 50, 100, ... draws, the last one stretched, and 50 draws for the step size at
    the last variances; shorter warm-ups keep 15 % before and 10 % after. Below 20 draws there
    is not a window.
    """
    if num_warmup < 20:
        return num_warmup, ()
    first, last, width = 75, 50, 25
    if first + width + last > num_warmup:
        first, last = int(0.15 * num_warmup), int(0.1 * num_warmup)
        width = num_warmup - first - last
    ends, end, stop = [], first, num_warmup - last
    while end < stop:
        # A window that leaves no room for the next, twice as long, takes what is left.
        end = stop if end + 3 * width > stop else end + width
        ends.append(end)
        width *= 2
    return first, tuple(ends)
