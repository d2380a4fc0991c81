"""The warm-up of unadjusted microcanonical Langevin: step size, preconditioner, L."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from bayesnn_ppl.inference.kernels.common.adaptation import RunningVariance

__all__ = ["Adaptation", "Batches", "StepSizeRule", "batch_time", "step_size_rule", "when"]

_BATCHES = 16


def when(condition: Any, function: Callable[[Any], Any], value: Any) -> Any:
    """`function(value)` where the condition holds, else `value`.

    A loop of no turns or one: batched over chains, a `cond` would run both its branches always.
    """
    count = jnp.where(condition, 1, 0)
    return jax.lax.fori_loop(0, count, lambda _, value: function(value), value)


class StepSizeRule(NamedTuple):
    """What the step size remembers: ε and the weight of the steps it rests on; shape ()."""

    step_size: Any
    weight: Any


def step_size_rule(rule: StepSizeRule, energy_error: Any, target: Any) -> StepSizeRule:
    """The step size after a step whose energy error per dimension is ΔE/√d; target v.

        ξ = ΔE²/(d v) + 1e-8,    w = exp(-½ (ln ξ / 9)²),    γ = 99/101
        X ← γX + wξ/ε⁶,    W ← γW + w,    ε ← (X/W)^{-1/6}

    ΔE of one step is O(ε³). Before the update X = W/ε⁶, so the new step size is
    ε ((γW + wξ)/(γW + w))^{-1/6}: no sixth power of a small number is formed. A step that is
    not finite is answered by ε ← 0.8 ε.

    References:
        Robnik et al. (2023), arXiv:2212.08549, section 4; Sommer et al. (2025), Microcanonical
        Langevin ensembles, ICLR.
    """
    finite = jnp.isfinite(energy_error)
    ratio = jnp.minimum(jnp.where(finite, energy_error, 0.0) ** 2 / target, 1e12) + 1e-8
    share = jnp.exp(-0.5 * (jnp.log(ratio) / 9) ** 2)
    kept = 99 / 101 * rule.weight
    factor = ((kept + share * ratio) / (kept + share)) ** (-1 / 6)
    return StepSizeRule(
        rule.step_size * jnp.where(finite, factor, 0.8),
        jnp.where(finite, kept + share, rule.weight),
    )


class Batches(NamedTuple):
    """What batch means are made of; vectors of shape (d,).

    Attributes:
        total, double_total: sum of the positions of the present batch, and of the means of the
            present pair of batches.
        single, double: of the means of batches, and of pairs of batches.
    """

    total: Any
    single: RunningVariance
    double_total: Any
    double: RunningVariance

    @classmethod
    def start(cls, like: Any) -> "Batches":
        """Nothing seen yet, for vectors of the shape and dtype of `like`."""
        nothing, moments = jnp.zeros_like(like), RunningVariance.start(like)
        return cls(nothing, moments, nothing, moments)


def batch_time(all_draws: Any, single: Any, double: Any, length: int) -> Any:
    """The mean over coordinates of n/ESS, from variances of batch means; shape ().

    The variance of means of b consecutive values is τ/b times that of the values, τ = n/ESS,
    minus a term of order 1/b²; 2 τ̂_{2b} - τ̂_b is free of it. Per coordinate the sixteen batches are
    few, but the mean over coordinates is not noisy. Unlike a chain kept for its
    autocovariances, batch means need memory of a few vectors however long the chain is, and
    see all coordinates.

    Args:
        all_draws, single, double: sample variances of the values, of means of `length` values
            and of means of twice as many; shape (d,).
        length: b.

    References:
        Liu, Vats and Flegal (2022), Batch size selection for variance estimators in MCMC;
        Vats and Flegal (2022), Lugsail lag windows, Biometrika 109.
    """
    variance = jnp.where(all_draws > 0, all_draws, 1.0)
    time = length * (4 * double - single) / variance
    # A coordinate that has not moved counts as never decorrelated within the batches.
    time = jnp.where(all_draws > 0, time, 2.0 * length)
    return jnp.maximum(jnp.mean(time), 1.0)


@dataclass(frozen=True)
class Adaptation:
    """The three phases of a warm-up, and what each step of it changes.

    It works on a chain's state with `z` a vector (d,), and the attributes `step_size`, `weight`,
    `length`, `scale`, `moments` and `batches`. Steps are counted from 0.

    Attributes:
        dimension: d.
        variance_from, set_at, length_from: the first step of phase 2, the step that ends the
            collection of variances, the first step of phase 3.
        batch: steps of one of the batches of phase 3; 0 where there is no room for them.
        energy_variance_start, energy_variance_end: wanted Var(ΔE)/d.
        length_factor: of L in phase 3.
        adapt_step_size, tune_length, diagonal: what is tuned.
    """

    dimension: int
    variance_from: int
    set_at: int
    length_from: int
    batch: int
    energy_variance_start: float
    energy_variance_end: float
    length_factor: float
    adapt_step_size: bool
    tune_length: bool
    diagonal: bool

    @classmethod
    def plan(
        cls, steps: int, fractions: tuple[float, float, float], *, diagonal: bool, **settings: Any
    ) -> "Adaptation":
        """The phases of a warm-up of this many steps, divided in these parts."""
        first, span = int(steps * fractions[0]), int(steps * fractions[1])
        return cls(
            variance_from=first,
            # After the preconditioner is set, the step size has a third of the phase to follow.
            set_at=first + (2 * span // 3 if diagonal else span),
            length_from=first + span,
            batch=int(steps * fractions[2]) // _BATCHES,
            diagonal=diagonal,
            **settings,
        )

    def step(self, state: Any, index: Any, error: Any) -> Any:
        """The state after step `index`, whose energy error was `error`, NaN if not finite."""
        if self.adapt_step_size:
            share = jnp.clip(index / max(self.length_from, 1), 0.0, 1.0)
            fall = math.log(self.energy_variance_end / self.energy_variance_start)
            rule = step_size_rule(
                StepSizeRule(state.step_size, state.weight),
                error / math.sqrt(self.dimension),
                self.energy_variance_start * jnp.exp(share * fall),
            )
            adapting = index < self.length_from
            state = state._replace(
                step_size=jnp.where(adapting, rule.step_size, state.step_size),
                weight=jnp.where(adapting, rule.weight, state.weight),
            )
        # Ten positions are too few to say anything.
        if self.set_at - self.variance_from >= 10:
            collecting = (index >= self.variance_from) & (index < self.set_at)
            state = when(collecting, _collect, state)
            state = when(index + 1 == self.set_at, self._adopt, state)
        if self.batch and self.tune_length:
            place = index - self.length_from
            total = self.batch * _BATCHES
            state = when(place == 0, _forget, state)
            inside = (place >= 0) & (place < total)
            state = when(inside, lambda state: self._gather(state, place), state)
            state = when(place + 1 == total, self._tune_length, state)
        return state

    def _adopt(self, state: Any) -> Any:
        """Scales and L from the variances of phase 2."""
        variance = state.moments.variance()
        length = jnp.sqrt(jnp.sum(variance))
        if self.diagonal:
            # The way of a step in the model's coordinates stays what it was.
            ratio = math.sqrt(self.dimension) / length
            length = jnp.full_like(length, math.sqrt(self.dimension))
            state = state._replace(scale=jnp.sqrt(variance), weight=0 * state.weight)
            if self.adapt_step_size:
                state = state._replace(step_size=state.step_size * ratio)
        return state._replace(length=length) if self.tune_length else state

    def _gather(self, state: Any, place: Any) -> Any:
        """One more position for the batches of phase 3; `place` counts from 0."""
        state = _collect(state)

        def one(state: Any) -> Any:
            batches = state.batches
            mean = batches.total / self.batch
            return state._replace(
                batches=batches._replace(
                    total=jnp.zeros_like(mean),
                    single=batches.single.update(mean),
                    double_total=batches.double_total + mean,
                )
            )

        def two(state: Any) -> Any:
            batches = state.batches
            return state._replace(
                batches=batches._replace(
                    double_total=jnp.zeros_like(batches.total),
                    double=batches.double.update(batches.double_total / 2),
                )
            )

        state = state._replace(batches=state.batches._replace(total=state.batches.total + state.z))
        state = when((place + 1) % self.batch == 0, one, state)
        return when((place + 1) % (2 * self.batch) == 0, two, state)

    def _tune_length(self, state: Any) -> Any:
        """L from the autocorrelation time of phase 3."""
        batches = state.batches
        time = batch_time(
            _variance(state.moments),
            _variance(batches.single),
            _variance(batches.double),
            self.batch,
        )
        return state._replace(length=self.length_factor * state.step_size * time)


def _variance(running: RunningVariance) -> Any:
    """The sample variance without shrinkage."""
    return running.squares / jnp.maximum(running.count - 1, 1)


def _collect(state: Any) -> Any:
    return state._replace(moments=state.moments.update(state.z))


def _forget(state: Any) -> Any:
    return state._replace(moments=jax.tree.map(jnp.zeros_like, state.moments))
