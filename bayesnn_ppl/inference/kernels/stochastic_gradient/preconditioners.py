"""Diagonal mass matrices M, estimated from the gradients that a sampler computes anyway.

With M as the mass of the momenta, or with steps ε·M^{-1} and noise of variance 2ε·T·M^{-1}, a
*fixed* M leaves the posterior invariant, whatever it is. One that moves with the position does
not, unless the drift Γ is added that its derivative calls for; so M is estimated in the warm-up
and frozen there, unless a mode says otherwise.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp

from bayesnn_ppl.core.arguments import integer, near_misses, positive
from bayesnn_ppl.inference.kernels.stochastic_gradient.gradient_noise import GradientNoise
from bayesnn_ppl.inference.kernels.stochastic_gradient.preconditioner_base import (
    Identity,
    Preconditioner,
    check_preconditioner,
)

__all__ = [
    "Adagrad",
    "GradientNoise",
    "Identity",
    "Layerwise",
    "Preconditioner",
    "RMSProp",
    "check_preconditioner",
]


class Moments(NamedTuple):
    """Averages over the gradients seen.

    Attributes:
        square: of g², shape (d,).
        slope: of g·∂g/∂θ, half the derivative of the former, shape (d,); () unless corrected.
        steps: gradients seen.
    """

    square: Any
    slope: Any
    steps: Any


@dataclass(frozen=True)
class RMSProp(Preconditioner):
    """M = floor + √v, where v is an exponential average of g².

    v ← decay·v + (1 - decay)·g². It starts from the mean of g² over all coordinates at the first
    step, so that no coordinate whose first gradient happens to be small is thrown far away.

    M is not normalised: it is of the size of a gradient of the summed loss, so step sizes are
    larger by that factor than without a preconditioner, as in bnn_hmc.

    Args:
        decay: in [0, 1); averages over about 1/(1 - decay) steps.
        floor: added to √v, positive.
        mode: "frozen": estimated in the warm-up, fixed afterwards; the target is that of
            the kernel without a preconditioner.

            "corrected", for SGLD alone: moves every step, and the drift

                Γ = ∂M^{-1}/∂θ = -M^{-2}·E[g·∂g/∂θ]/√v

            is added, ε·T·Γ. The expectation is averaged as v is; the diagonal of the Hessian comes
            from one Hutchinson probe a step, z ⊙ (∇²Û z), a product that costs about two gradients
            more, so a step costs three. The posterior is left invariant in the limit ε → 0 at
            fixed `decay`, where θ moves little in 1/(1 - decay) steps. Li et al. differentiate
            the newest gradient only, which is (1 - decay)·Γ and does not have that limit: on the
            density below, with decay .9 and ε = .01, it leaves the variance 31 % too large, and
            this one 2 % too small.

            "plain": moves every step, without Γ. **Biased**, whatever the step size: where v
            follows θ closely the draws have p(θ)·M(θ), and on p(θ) ∝ exp(-θ⁴/4 - θ), floor 1, its
            variance is 46 % too large. This is what pSGLD is in practice, and bnn_hmc's RMSprop;
            it is here to be compared with.

    Raises:
        TypeError, ValueError: an argument is out of range.

    References:
        Li, Chen, Carlson and Carin (2016), arXiv:1512.07666; Ma, Chen and Fox (2015),
        arXiv:1506.04696, for Γ; Izmailov et al. (2021), arXiv:2104.14421 (decay .99, floor 1e-7).
    """

    decay: float = 0.99
    floor: float = 1e-7
    mode: str = "frozen"

    def __post_init__(self) -> None:
        if self.decay != 0 or isinstance(self.decay, bool):
            positive(self.decay, "`decay` of RMSProp")
        if self.decay >= 1:
            raise ValueError(f"`decay` of RMSProp must be below 1, not {self.decay}.")
        positive(self.floor, "`floor` of RMSProp")
        _check_mode(self.mode, ("frozen", "corrected", "plain"), "RMSProp")

    @property
    def always(self) -> bool:
        return self.mode != "frozen"

    @property
    def corrected(self) -> bool:
        return self.mode == "corrected"

    def start(self, dimension: int, sizes: Sequence[int]) -> Moments:
        return _no_moments(dimension, self.corrected)

    def update(self, state: Moments, gradient: Any, index: Any, curvature: Any = None) -> Moments:
        before = jnp.where(state.steps == 0, jnp.mean(gradient**2), state.square)
        square = self.decay * before + (1 - self.decay) * gradient**2
        slope = state.slope
        if self.corrected:
            slope = self.decay * slope + (1 - self.decay) * gradient * curvature
        return Moments(square, slope, state.steps + 1)

    def mass(self, state: Moments) -> Any:
        return _mass_of(state, self.floor)

    def drift(self, state: Moments) -> Any:
        if not self.corrected:
            return 0.0
        root = jnp.sqrt(state.square)
        derivative = jnp.where(root > 0, state.slope / jnp.where(root > 0, root, 1.0), 0.0)
        return -derivative / self.mass(state) ** 2


@dataclass(frozen=True)
class Adagrad(Preconditioner):
    """M = floor + √v, where v is the mean of g² over all steps so far.

    Duchi's sum divided by the number of its terms, so that M has a limit and only the schedule of
    the step size makes steps smaller; multiply the step size by √t for the sum. The mean of g² over
    all coordinates at the first step counts as one term more.

    Args:
        floor: added to √v, positive.
        mode: "frozen": estimated in the warm-up, fixed afterwards. "plain": moves every step, by
            a part 1/t of itself. **Biased**, though less and less.

    Raises:
        TypeError, ValueError: an argument is out of range.

    References:
        Duchi, Hazan and Singer (2011).
    """

    floor: float = 1e-7
    mode: str = "frozen"

    def __post_init__(self) -> None:
        positive(self.floor, "`floor` of Adagrad")
        _check_mode(self.mode, ("frozen", "plain"), "Adagrad")

    @property
    def always(self) -> bool:
        return self.mode == "plain"

    def start(self, dimension: int, sizes: Sequence[int]) -> Moments:
        return _no_moments(dimension, False)

    def update(self, state: Moments, gradient: Any, index: Any, curvature: Any = None) -> Moments:
        before = jnp.where(state.steps == 0, jnp.mean(gradient**2), state.square)
        square = before + (gradient**2 - before) / (state.steps + 2)
        return Moments(square, state.slope, state.steps + 1)

    def mass(self, state: Moments) -> Any:
        return _mass_of(state, self.floor)


class LayerMoments(NamedTuple):
    """What the layerwise preconditioner has seen since it was last set.

    Attributes:
        totals: sums of g², one array (size,) for each parameter array.
        mass: M, shape (d,).
    """

    totals: tuple[Any, ...]
    mass: Any


@dataclass(frozen=True)
class Layerwise(Preconditioner):
    """One number for each parameter array: M_ℓ = s_ℓ / min s, s_ℓ = √(floor + mean E[g²]).

    The mean is over the elements of the array, the expectation over the last `gradients`
    minibatches before M is reset, after every `every` steps of the warm-up (Wenzel et al. take
    32 extra gradients at one position, at the end of every epoch; here the gradients of the steps
    themselves serve, so it costs nothing). Momenta are rescaled by √(M_new/M_old).

    The smallest M_ℓ is 1, so step sizes mean what they mean without a preconditioner.

    Args:
        every: steps from one estimate to the next, such as those of an epoch. The warm-up must
            have as many, or there is no estimate.
        gradients: minibatches of an estimate, at most `every`.
        floor: positive.

    Raises:
        TypeError, ValueError: an argument is out of range.

    References:
        Wenzel et al. (2020), arXiv:2002.02405, Appendix D (layerwise preconditioning).
    """

    every: int
    gradients: int = 32
    floor: float = 1e-7

    def __post_init__(self) -> None:
        integer(self.every, "`every` of Layerwise", at_least=1)
        integer(self.gradients, "`gradients` of Layerwise", at_least=1)
        if self.gradients > self.every:
            raise ValueError(
                f"`gradients` of Layerwise is {self.gradients}, but M is reset every "
                f"{self.every} steps: at most that many gradients can be averaged."
            )
        positive(self.floor, "`floor` of Layerwise")

    @property
    def least_steps(self) -> int:
        return self.every

    def start(self, dimension: int, sizes: Sequence[int]) -> LayerMoments:
        return LayerMoments(tuple(jnp.zeros(size) for size in sizes), jnp.ones(dimension))

    def update(
        self, state: LayerMoments, gradient: Any, index: Any, curvature: Any = None
    ) -> LayerMoments:
        place = jnp.remainder(index, self.every)
        counts = place >= self.every - self.gradients
        totals = tuple(
            total + jnp.where(counts, part**2, 0.0)
            for total, part in zip(state.totals, _split(gradient, state.totals), strict=True)
        )
        squares = jnp.stack([jnp.mean(total) for total in totals]) / self.gradients
        scales = jnp.sqrt(self.floor + squares)
        scales = scales / jnp.min(scales)
        mass = jnp.concatenate([jnp.full(total.shape, scales[i]) for i, total in enumerate(totals)])
        due = place == self.every - 1
        return LayerMoments(
            tuple(jnp.where(due, 0.0, total) for total in totals),
            jnp.where(due, mass, state.mass),
        )

    def mass(self, state: LayerMoments) -> Any:
        return state.mass


def _no_moments(dimension: int, with_slope: bool) -> Moments:
    zeros = jnp.zeros(dimension)
    return Moments(zeros, zeros if with_slope else jnp.zeros(()), jnp.zeros((), int))


def _mass_of(state: Moments, floor: float) -> Any:
    """1 before any gradient was seen."""
    return jnp.where(state.steps == 0, 1.0, floor + jnp.sqrt(state.square))


def _split(vector: Any, like: Sequence[Any]) -> list[Any]:
    parts, start = [], 0
    for array in like:
        parts.append(vector[start : start + array.size])
        start += array.size
    return parts


def _check_mode(mode: object, known: tuple[str, ...], what: str) -> None:
    if mode not in known:
        raise ValueError(f"`mode={mode!r}` of {what} is unknown. " + near_misses(str(mode), known))


def __dir__() -> list[str]:
    return sorted(__all__)  # what a prompt offers, without what is imported here
