"""Step sizes, temperatures and noise that change from step to step.

A schedule is a function `step -> value` of the number of steps done before, warm-up included. It
is called inside compiled code. Those here are frozen dataclasses, so that a kernel made again with
an equal schedule compiles nothing; any other function, such as a schedule of optax, will do, if
JAX can compile it. Of such a one a momentum decay is stated at its largest value, and a temperature
counts in the record of a run as the value at which it ends.
"""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

from bayesnn_ppl.core.arguments import integer, positive
from bayesnn_ppl.inference.schedules.base import (
    Schedule,
    arrival,
    check_schedule,
    evaluate,
    fraction_of,
    half_cosine,
    not_negative,
    real,
    reference,
)
from bayesnn_ppl.inference.schedules.cyclical import Cyclical, Delayed, LastPart, csgmcmc

__all__ = [
    "Constant",
    "CosineBurnIn",
    "Cyclical",
    "Delayed",
    "LastPart",
    "Polynomial",
    "Ramp",
    "Schedule",
    "arrival",
    "check_schedule",
    "csgmcmc",
    "evaluate",
    "reference",
]


@dataclass(frozen=True)
class Constant(Schedule):
    """The same value at every step; a plain number means the same."""

    value: float

    def __post_init__(self) -> None:
        not_negative(self.value, "`value` of Constant")

    @property
    def reference(self) -> float:
        return float(self.value)

    @property
    def first(self) -> float:
        return float(self.value)

    def __call__(self, step: Any) -> Any:
        return jnp.full(jnp.shape(step), self.value, real())


@dataclass(frozen=True)
class CosineBurnIn(Schedule):
    """From `initial` to `final` along half a cosine, and `final` from then on.

    value(k) = final + (initial - final)·(1 + cos(π·min(k/steps, 1)))/2.

    Args:
        initial, final: positive; the reference is `final`, with which the draws are made.
        steps: length of the burn-in; as many as the warm-up has, `warmup × steps_per_draw`.

    References:
        Izmailov et al. (2021), arXiv:2104.14421, whose SG-MCMC runs burn in so.
    """

    initial: float
    final: float
    steps: int

    def __post_init__(self) -> None:
        positive(self.initial, "`initial` of CosineBurnIn")
        positive(self.final, "`final` of CosineBurnIn")
        integer(self.steps, "`steps` of CosineBurnIn", at_least=1)

    @property
    def reference(self) -> float:
        return float(self.final)

    @property
    def first(self) -> float:
        return float(self.initial)

    def __call__(self, step: Any) -> Any:
        part = fraction_of(jnp.minimum(step, self.steps), self.steps)
        return self.final + (self.initial - self.final) * half_cosine(part)


@dataclass(frozen=True)
class Polynomial(Schedule):
    """A step size that falls as a power of the step: ε_k = initial·(1 + k/offset)^{-power}.

    With 1/2 < power ≤ 1 it meets the conditions of Robbins and Monro, Σε = ∞ and Σε² < ∞, under
    which SGLD's averages, weighted by ε, converge to the posterior's. The draws of a run count
    alike, so with a constant step the bias is O(ε) and with this one it falls during the run.

    Args:
        initial: ε_0 > 0, the reference.
        offset: steps after which ε has fallen by 2^{-power}.
        power: in (1/2, 1].

    Raises:
        ValueError: a power outside (1/2, 1], which breaks one of the two conditions.

    References:
        Welling and Teh (2011); Teh, Thiery and Vollmer (2016), arXiv:1409.0578: power 1/3 makes
        the mean squared error smallest for a given cost, though Σε² = ∞; with a constant number
        of steps give a constant step, which does the same.
    """

    initial: float
    offset: float
    power: float = 0.55

    def __post_init__(self) -> None:
        positive(self.initial, "`initial` of Polynomial")
        positive(self.offset, "`offset` of Polynomial")
        power = positive(self.power, "`power` of Polynomial")
        if not 0.5 < power <= 1:
            broken = "their squares have an infinite sum" if power <= 0.5 else "their sum is finite"
            raise ValueError(
                f"`power` of Polynomial must be in (0.5, 1], not {power:g}: step sizes that fall "
                f"as k^-{power:g} break a condition of Robbins and Monro, {broken}. Values from "
                "0.51 to 0.6 fall slowest."
            )

    @property
    def reference(self) -> float:
        return float(self.initial)

    @property
    def first(self) -> float:
        return float(self.initial)

    def __call__(self, step: Any) -> Any:
        return self.initial * (1 + fraction_of(step, self.offset)) ** -self.power


@dataclass(frozen=True)
class Ramp(Schedule):
    """From `initial` to `final` on a straight line, and `final` from then on.

    As a temperature it heats a chain up from an optimiser (T = 0) to a sampler: over the cycle
    before sampling in Wenzel et al.

    Args:
        final: the value after `steps` steps, the reference; positive.
        steps: length of the ramp.
        initial: not negative.
    """

    final: float
    steps: int
    initial: float = 0.0

    def __post_init__(self) -> None:
        positive(self.final, "`final` of Ramp")
        integer(self.steps, "`steps` of Ramp", at_least=1)
        not_negative(self.initial, "`initial` of Ramp")

    @property
    def reference(self) -> float:
        return float(self.final)

    @property
    def first(self) -> float:
        return float(self.initial)

    def __call__(self, step: Any) -> Any:
        part = fraction_of(jnp.minimum(step, self.steps), self.steps)
        return self.initial + (self.final - self.initial) * part
