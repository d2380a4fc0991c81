"""What ChEES-HMC learns from all chains: step size, trajectory length, and masses."""

import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from bayesnn_ppl.inference.kernels.common.adaptation import (
    DualAveraging,
    Mass,
    RunningVariance,
    adam_step,
    inverse_mass_of,
    variance_windows,
)

__all__ = [
    "Adaptation",
    "adapt",
    "chees_gradient",
    "shared_acceptance",
    "van_der_corput",
    "with_draws",
]

_LEAST_WEIGHT = 1e-4  # a proposal accepted more rarely tells nothing, and may be astronomic
_SHARE_WITH_WINDOWS = 0.7  # of the warm-up; the rest is for the trajectory at the last variances


class Adaptation(NamedTuple):
    """What the chains have learned together; all but `scale` and `moments` are scalars.

    Attributes:
        step: the step size ε by dual averaging.
        log_length, averaged_log_length: log T, now and averaged over the warm-up.
        squares, updates: the second moment of Adam, and how many updates went into it.
        scale: square roots of the inverse mass, shape (d,); shape () for the identity.
        moments: of the draws in this window, for the next `scale`; None for the identity.
    """

    step: DualAveraging
    log_length: Any
    averaged_log_length: Any
    squares: Any
    updates: Any
    scale: Any
    moments: RunningVariance | None

    @classmethod
    def start(
        cls, points: Any, seen: Any, *, step_size: float, trajectory_length: float, mass: Mass
    ) -> "Adaptation":
        """Before the first draw, for points of shape (chain, d) and what is `collected` of them."""
        learned = mass != "identity"
        dtype = points.dtype
        log_length = jnp.log(jnp.asarray(trajectory_length, dtype))
        return cls(
            step=DualAveraging.start(jnp.asarray(step_size, dtype)),
            log_length=log_length,
            averaged_log_length=log_length,
            squares=jnp.zeros((), dtype),
            updates=jnp.zeros((), dtype),
            scale=jnp.ones(points.shape[1] if learned else (), dtype),
            moments=RunningVariance.start(seen[0]) if learned else None,
        )


def van_der_corput(index: Any) -> Any:
    """Entry `index` of the base-2 Halton sequence, in (0, 1): the bits mirrored at the point."""
    bits = (jnp.asarray(index, jnp.uint32) >> jnp.arange(24, dtype=jnp.uint32)) & 1
    return jnp.sum(bits * 0.5 ** jnp.arange(1, 25)) + 2.0**-25


def chees_gradient(before: Any, after: Any, velocity: Any, length: Any, accept_prob: Any) -> Any:
    r"""An estimate of the derivative of ChEES with respect to log T.

    ChEES(t) = ¼ E[(‖θ' - E θ'‖² - ‖θ - E θ‖²)²] for a trajectory of length t = uT from θ to θ';
    as dθ'/dt is the velocity v', chain m contributes

        t (‖θ'_m - mean θ'‖² - ‖θ_m - mean θ‖²) (θ'_m - mean θ')ᵀ v'_m,

    and chains are averaged with their acceptance probabilities as weights. A chain that is not
    finite, or all but surely rejected, has no weight, and its proposal touches nothing.

    Args:
        before, after, velocity: θ, θ' and v', shape (chain, d).
        length: t, shape ().
        accept_prob: shape (chain,).

    Returns:
        A scalar; 0 when no chain has weight.

    References:
        Hoffman, Radul and Sountsov (2021), An adaptive-MCMC scheme for setting trajectory
        lengths in Hamiltonian Monte Carlo, AISTATS, PMLR 130, section 3.
    """
    finite = jnp.isfinite(after).all(axis=1) & jnp.isfinite(velocity).all(axis=1)
    usable = finite & (accept_prob > _LEAST_WEIGHT)
    weight = jnp.where(usable, accept_prob, 0.0)
    weight = weight / jnp.maximum(weight.sum(), _LEAST_WEIGHT)
    after = jnp.where(usable[:, None], after, before)
    velocity = jnp.where(usable[:, None], velocity, 0.0)
    centred = after - weight @ after
    growth = (centred**2).sum(1) - ((before - before.mean(0)) ** 2).sum(1)
    return length * jnp.sum(weight * growth * (centred * velocity).sum(1))


def shared_acceptance(accept_prob: Any, finite: Any) -> Any:
    """What the step size is adapted by: the harmonic mean over chains.

    A harmonic mean is small when one chain's acceptance is, so no chain is left stuck.
    Proposals that are not finite count in proportion instead: a region without density, into
    which some chain steps in most draws, would otherwise shrink the step size for ever.
    """
    inverse = jnp.where(finite, 1 / jnp.maximum(accept_prob, 1e-10), 0.0)
    return jnp.sum(finite) ** 2 / (jnp.maximum(inverse.sum(), 1e-10) * finite.size)


def adapt(
    learned: Adaptation,
    gradient: Any,
    acceptance: Any,
    seen: Any,
    iteration: Any,
    *,
    mass: Mass,
    num_warmup: int,
    target_accept: float,
    learning_rate: float,
    max_leapfrogs: int,
) -> Adaptation:
    """What is known after draw `iteration` of the warm-up.

    Args:
        learned: what was known before it.
        gradient: from `chees_gradient`; 0 or not finite leaves the trajectory as it is.
        acceptance: from `shared_acceptance`.
        seen: what is `collected` of the draws, shape (chain, d or 2d).
        iteration: counted from 0.
        mass, num_warmup, target_accept, learning_rate, max_leapfrogs: the kernel's.
    """
    step_size = learned.step.step_size
    change, squares, updates = adam_step(gradient, learned.squares, learned.updates, learning_rate)
    # A step that is accepted is shorter than the posterior is wide: no need to begin below it.
    floor = jnp.where(acceptance > 0.5 * target_accept, jnp.log(step_size), -jnp.inf)
    ceiling = jnp.log(jnp.maximum(step_size, jnp.finfo(step_size.dtype).tiny) * max_leapfrogs)
    log_length = jnp.clip(learned.log_length + change, floor, jnp.maximum(ceiling, floor))
    weight = jnp.maximum(updates, 1) ** -0.5
    averaged = weight * log_length + (1 - weight) * learned.averaged_log_length
    adapted = learned._replace(
        step=learned.step.update(acceptance, target_accept),
        log_length=log_length,
        averaged_log_length=averaged,
        squares=squares,
        updates=updates,
    )
    if learned.moments is None:
        return adapted
    first, ends = variance_windows(int(_SHARE_WITH_WINDOWS * num_warmup))
    return _new_masses(adapted, seen, iteration, mass, first, ends)


def _new_masses(
    learned: Adaptation, seen: Any, iteration: Any, mass: Mass, first: int, ends: tuple[int, ...]
) -> Adaptation:
    """Collect the draws of all chains; at the end of a window take the mass from them.

    A step is limited by the narrowest direction in units of `scale`, a trajectory is as long as
    the widest: both are carried over to the new units, and their averages restart. In these
    units the widest is 1 or more, and a trajectory that long begins at π/2, because the way to
    it is slow where few chains make a noisy gradient.
    """
    moments: Any = learned.moments
    added = with_draws(moments, seen)
    moments = jax.tree.map(partial(jnp.where, iteration >= first), added, moments)
    scale = jnp.sqrt(inverse_mass_of(mass, moments))
    ratio = learned.scale / scale
    log_length = jnp.maximum(learned.log_length + jnp.log(ratio.min()), math.log(math.pi / 2))
    renewed = learned._replace(
        step=DualAveraging.start(learned.step.averaged * ratio.max()),
        log_length=log_length,
        averaged_log_length=log_length,
        squares=jnp.zeros_like(learned.squares),
        updates=jnp.zeros_like(learned.updates),
        scale=scale,
        moments=RunningVariance.start(seen[0]),
    )
    at_end = jnp.isin(iteration + 1, jnp.asarray(ends, jnp.int32)) & jnp.isfinite(scale).all()
    return jax.tree.map(partial(jnp.where, at_end), renewed, learned._replace(moments=moments))


def with_draws(moments: RunningVariance, points: Any) -> RunningVariance:
    """The moments with (chain, d) draws added at once, which costs devices one reduction."""
    chains = points.shape[0]
    mean = points.mean(axis=0)
    squares = ((points - mean) ** 2).sum(axis=0)
    count = moments.count + chains
    shift = mean - moments.mean
    return RunningVariance(
        count,
        moments.mean + shift * chains / count,
        moments.squares + squares + shift**2 * moments.count * chains / count,
    )
