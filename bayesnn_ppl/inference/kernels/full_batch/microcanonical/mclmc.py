"""Microcanonical Langevin Monte Carlo: long moves without an accept step, tuned by their energy."""

import math
from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from numpyro.infer import init_to_uniform

from bayesnn_ppl.core.arguments import integer, positive, strict_switches
from bayesnn_ppl.inference.kernels.common.acceptance import fraction
from bayesnn_ppl.inference.kernels.common.adaptation import RunningVariance
from bayesnn_ppl.inference.kernels.common.density import Density
from bayesnn_ppl.inference.kernels.common.microcanonical_dynamics import (
    check_dimension,
    check_preconditioning,
    direction,
)
from bayesnn_ppl.inference.kernels.common.model_kernel import ModelKernel
from bayesnn_ppl.inference.kernels.full_batch.microcanonical.adaptation import Adaptation, Batches
from bayesnn_ppl.inference.kernels.full_batch.microcanonical.moves import (
    Errors,
    MCLMCState,
    move,
    warm_step,
)

__all__ = ["MCLMC", "MCLMCState"]


class MCLMC(ModelKernel):
    """Unadjusted microcanonical Langevin Monte Carlo.

    Microcanonical dynamics (`microcanonical_dynamics.py`) whose velocity is partly forgotten, at
    the rate 1/L. Every draw is kept: there is no accept step, and the stationary distribution is
    the posterior (temperature 1) up to a bias of order ε². Var(ΔE) of a step is of order ε⁶, so the
    bias goes with the cube root of v = Var(ΔE)/d, which is what the warm-up sets, and for Gaussian
    posteriors v bounds it whatever their dimension and scales (Robnik and Seljak 2024,
    arXiv:2412.08876). Measured on a standard Gaussian, d = 50: variances too small by the part 0.25
    v^{1/3}; on one of condition number 1000, 2 % at v = 5e-4, and at v = 0.1 10 % on average and up
    to a factor of 2 in single coordinates. `energy_variance_end=0.1` is MILE's, for networks; give
    5e-4 where moments have to be right. `AdjustedMCLMC` has no bias.

    The warm-up has three phases, parts of its `num_warmup × steps_per_draw` steps:

    1. the step size follows the energy error of every step (`step_size_rule`), whose wanted
       variance per dimension falls from `energy_variance_start` to `energy_variance_end`,
       by the same factor every step;
    2. so it does while the variances of the positions are estimated; then L = √(Σ variances),
       or, with the diagonal preconditioner, which is set after two thirds of the phase, √d;
    3. at fixed step size, L = `length_factor` · ε · mean(n/ESS), by batch means.

    Everything is tuned for each chain apart. Defaults are those of MILE, but for the
    preconditioner and the interval of refreshment: MILE is `preconditioning="identity",
    refreshments_per_length=None` with 5 000 warm-up draws of 10 steps.

    A move whose energy is not finite is undone, and a new velocity is drawn.

    Args:
        model: a NumPyro model of `(x, y)` with at least two unconstrained coordinates.
        steps_per_draw: steps of one draw, two gradients each.
        step_size: ε, where the warm-up starts, in preconditioned coordinates.
        adapt_step_size: whether the warm-up changes it.
        length: L, the decoherence length of the momentum; None: tuned, from max(√d, 15).
        energy_variance_start, energy_variance_end: wanted Var(ΔE)/d of a step.
        preconditioning: "diagonal" or "identity".
        step_size_fraction, variance_fraction, length_fraction: the parts of the warm-up.
        length_factor: of phase 3.
        refreshments_per_length: refresh the velocity this often on a way of length L, and not
            after every step, where that is rarer: every refreshment costs a vector of normals,
            which is expensive next to the gradient of a small network. Each leaves the target
            invariant whatever its interval, and on Gaussians 2, 4, 10 and every step give equal
            ESS. None: after every step. No interval spans two draws.
        rows_at_once: the most rows of the data that a gradient looks at together, for data whose
            whole gradient would not fit into memory; it is added up over blocks. None for all.

    Raises:
        TypeError, ValueError: an argument is out of range, or the model has one coordinate.

    References:
        Robnik, De Luca, Silverstein and Seljak (2023), arXiv:2212.08549; Robnik and Seljak
        (2024), arXiv:2303.18221; Sommer et al. (2025), ICLR (MILE).
    """

    recorded = ("diverging", "potential_energy", "energy_error", "num_steps", "step_size")

    @strict_switches
    def __init__(
        self,
        model: Callable[..., Any],
        *,
        steps_per_draw: int = 10,
        step_size: float = 1e-3,
        adapt_step_size: bool = True,
        length: float | None = None,
        energy_variance_start: float = 0.5,
        energy_variance_end: float = 0.1,
        preconditioning: Literal["identity", "diagonal"] = "diagonal",
        step_size_fraction: float = 0.8,
        variance_fraction: float = 0.1,
        length_fraction: float = 0.1,
        length_factor: float = 0.4,
        refreshments_per_length: int | None = 4,
        init_strategy: Any = init_to_uniform,
        rows_at_once: int | None = None,
    ) -> None:
        super().__init__(model, init_strategy=init_strategy, rows_at_once=rows_at_once)
        self._steps_per_draw = integer(steps_per_draw, "`steps_per_draw` of MCLMC", at_least=1)
        self._step_size = positive(step_size, "`step_size` of MCLMC")
        self._adapt_step_size = adapt_step_size
        self._length = None if length is None else positive(length, "`length` of MCLMC")
        self._energy_variance_start = positive(
            energy_variance_start, "`energy_variance_start` of MCLMC"
        )
        self._energy_variance_end = positive(energy_variance_end, "`energy_variance_end` of MCLMC")
        self._preconditioning = check_preconditioning(preconditioning, "MCLMC")
        fractions = (step_size_fraction, variance_fraction, length_fraction)
        names = ("step_size_fraction", "variance_fraction", "length_fraction")
        for name, part in zip(names, fractions, strict=True):
            fraction(part, f"`{name}` of MCLMC", zero=True)
        if sum(fractions) > 1 + 1e-9:
            raise ValueError(
                "The parts of the warm-up of MCLMC, `step_size_fraction`, `variance_fraction` and "
                f"`length_fraction`, must add up to at most 1, not {sum(fractions):g}."
            )
        self._step_size_fraction = float(step_size_fraction)
        self._variance_fraction = float(variance_fraction)
        self._length_fraction = float(length_fraction)
        self._length_factor = positive(length_factor, "`length_factor` of MCLMC")
        self._refreshments_per_length = (
            None
            if refreshments_per_length is None
            else integer(refreshments_per_length, "`refreshments_per_length` of MCLMC", at_least=1)
        )

    def _start(self, key: Any, z: Any, density: Density) -> MCLMCState:
        vector, _ = ravel_pytree(z)
        check_dimension(vector, "MCLMC")
        key, velocity_key = jax.random.split(key)
        potential, gradient = jax.value_and_grad(density.potential)(vector)
        zero = jnp.zeros((), vector.dtype)
        diagonal = self._preconditioning == "diagonal"
        length = max(math.sqrt(vector.size), 15.0) if self._length is None else self._length
        return MCLMCState(
            z=z,
            velocity=direction(jax.random.normal(velocity_key, vector.shape, vector.dtype)),
            gradient=gradient,
            potential=potential,
            scale=jnp.ones_like(vector) if diagonal else jnp.ones((), vector.dtype),
            step_size=zero + self._step_size,
            length=zero + length,
            weight=zero,
            moments=RunningVariance.start(vector),
            batches=Batches.start(vector),
            iteration=jnp.asarray(0),
            rng_key=key,
            statistics={
                "potential_energy": potential,
                "energy_error": zero,
                "diverging": jnp.asarray(False),
                "num_steps": jnp.asarray(0),
                "step_size": zero + self._step_size,
            },
        )

    def _draw(self, state: MCLMCState, density: Density) -> MCLMCState:
        key, noise_key = jax.random.split(state.rng_key)
        old, _ = ravel_pytree(state.z)
        errors = Errors(jnp.zeros_like(state.step_size), jnp.asarray(False))
        state = state._replace(z=old)
        if not self._num_warmup:
            state, errors = move(
                state, errors, density, noise_key, self._steps_per_draw, self._stretch(state)
            )
        else:
            adaptation = self._adaptation(old.size)
            # Loops of no turns where a `cond` would do: see `when`.
            warm = jnp.where(state.iteration < self._num_warmup, self._steps_per_draw, 0)
            first = state.iteration * self._steps_per_draw

            def adapted(index: Any, carry: Any) -> Any:
                state, errors = carry
                here = jax.random.fold_in(noise_key, index)
                state, errors, error = warm_step(
                    state, errors, density, here, first + index, self._stretch(state)
                )
                return adaptation.step(state, first + index, error), errors

            state, errors = jax.lax.fori_loop(0, warm, adapted, (state, errors))
            rest = self._steps_per_draw - warm
            state, errors = move(state, errors, density, noise_key, rest, self._stretch(state))
        return state._replace(
            z=density.unravel(state.z),
            iteration=state.iteration + 1,
            rng_key=key,
            statistics={
                "potential_energy": state.potential,
                "energy_error": errors.total,
                "diverging": errors.diverging,
                "num_steps": jnp.asarray(2 * self._steps_per_draw),
                "step_size": state.step_size,
            },
        )

    def _adaptation(self, dimension: int) -> Adaptation:
        """The phases of this warm-up."""
        return Adaptation.plan(
            (self._num_warmup or 0) * self._steps_per_draw,
            (self._step_size_fraction, self._variance_fraction, self._length_fraction),
            diagonal=self._preconditioning == "diagonal",
            dimension=dimension,
            energy_variance_start=self._energy_variance_start,
            energy_variance_end=self._energy_variance_end,
            length_factor=self._length_factor,
            adapt_step_size=self._adapt_step_size,
            tune_length=self._length is None,
        )

    def _stretch(self, state: MCLMCState) -> Any:
        """Steps from one refreshment to the next, within a draw."""
        if self._refreshments_per_length is None:
            return jnp.asarray(1)
        way = state.length / (state.step_size * self._refreshments_per_length)
        return jnp.clip(way, 1, self._steps_per_draw).astype(int)
