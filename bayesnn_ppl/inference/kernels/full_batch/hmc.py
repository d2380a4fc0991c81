"""Full-batch Hamiltonian Monte Carlo after Izmailov et al. (2021)."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from numpyro.infer import init_to_uniform

from bayesnn_ppl.core.arguments import integer, positive, strict_switches
from bayesnn_ppl.inference.kernels.common.acceptance import fraction
from bayesnn_ppl.inference.kernels.common.adaptation import (
    DualAveraging,
    Mass,
    RunningVariance,
    check_mass,
)
from bayesnn_ppl.inference.kernels.common.density import Density, Terms, potential_energy
from bayesnn_ppl.inference.kernels.common.model_kernel import ModelKernel
from bayesnn_ppl.inference.kernels.common.state_fields import named_fields
from bayesnn_ppl.inference.kernels.full_batch.leapfrog import (
    Point,
    hmc_step,
    izmailov_trajectory,
)
from bayesnn_ppl.inference.kernels.full_batch.step_and_mass import StepAndMass
from bayesnn_ppl.modeling.temperature import ColdModel

__all__ = ["HMC", "HMCState", "izmailov_trajectory"]

# A warm-up that is still looking for its step size must not take one draw for minutes, and one
# that has failed must not leave a draw that never ends.
_WARMUP_LEAPFROGS, _MOST_LEAPFROGS = 1000, 2**20


@named_fields
class HMCState(NamedTuple):
    """The state of one chain.

    Attributes:
        z: site -> unconstrained value.
        gradient, terms: ∇U(θ), shape (d,), and the terms of log p(θ), so that neither is
            computed twice.
        iteration: draws made, warm-up included.
        inverse_mass: shape () or (d,).
        averaging, variance: what the warm-up adapts with; None where it does not.
        statistics: potential_energy; energy, the Hamiltonian at the end of the draw; num_steps,
            its leapfrogs and gradients; step_size; accept_prob; diverging, whether the energy
            error is above 1000 or not finite.
    """

    z: Any
    gradient: Any
    terms: Terms
    rng_key: Any
    iteration: Any
    inverse_mass: Any
    averaging: DualAveraging | None
    variance: RunningVariance | None
    statistics: Any


class HMC(ModelKernel):
    """Hamiltonian Monte Carlo on the whole data, lean: one gradient a leapfrog, nothing else.

    New momenta are drawn for each draw, the trajectory's length is yours, and a rejected proposal
    repeats the state. The target is exp(-U(θ)) of the model, with whatever temperature it has.

    Args:
        model: a NumPyro model.
        step_size: ε > 0; where the adaptation begins, or, without it, the step of all draws.
        trajectory_length: τ > 0; L = ⌈τ/ε⌉ leapfrogs.
        num_leapfrogs: L ≥ 1, whatever the step size.
        prior_variance: the variance of a Gaussian prior on the weights, for τ by the rule of
            `izmailov_trajectory`; T is that of a `cold` model, else 1. Exactly one of these three
            is given.
        jitter: in [0, 1); every trajectory's length is multiplied by a uniform number from
            [1 - jitter, 1 + jitter], so that no period of the posterior resonates with it.
        mass: "identity"; "diagonal", M⁻¹ = the variances of θ over windows of the warm-up, so
            that π/2 is a natural τ; or "fisher", M⁻¹ = √(variance of θ / variance of ∇U) there.
        adapt_step_size: search and then dual averaging in the warm-up. A draw of the warm-up takes
            at most 1000 leapfrogs, or τ/ε of the step size given, if that is more; one after it
            at most 2²⁰, and the statistics show how many.
        target_accept: the mean acceptance probability that the adaptation aims at, in (0, 1).
        init_strategy: NumPyro's, where `MCMC` of NumPyro starts the chain.
        rows_at_once: the most rows of the data that a gradient looks at together, for data whose
            whole gradient would not fit into memory; it is added up over blocks. None for all.

    Raises:
        TypeError, ValueError: an argument is out of range, or the length is not said once.

    Example:
        >>> import bayesnn_ppl as bnn
        >>> kernel = bnn.kernels.HMC(bnn.models.mlp(), step_size=1e-3, prior_variance=1 / 30)
        >>> round(kernel.trajectory_length, 3)
        0.287

    References:
        Izmailov et al. (2021), What Are Bayesian Neural Network Posteriors Really Like?,
        arXiv:2104.14421; Neal (2011), section 5.3.
    """

    accept_step = True
    recorded = (
        "diverging", "energy", "potential_energy", "num_steps", "accept_prob", "step_size"
    )  # fmt: skip

    @strict_switches
    def __init__(
        self,
        model: Callable[..., Any],
        *,
        step_size: float = 0.01,
        trajectory_length: float | None = None,
        num_leapfrogs: int | None = None,
        prior_variance: float | None = None,
        jitter: float = 0.0,
        mass: Mass = "identity",
        adapt_step_size: bool = True,
        target_accept: float = 0.8,
        init_strategy: Any = init_to_uniform,
        rows_at_once: int | None = None,
    ) -> None:
        super().__init__(model, init_strategy=init_strategy, rows_at_once=rows_at_once)
        self._step_size = positive(step_size, "The step size of HMC")
        lengths = {
            "trajectory_length": trajectory_length,
            "num_leapfrogs": num_leapfrogs,
            "prior_variance": prior_variance,
        }
        given = [f"{name}={value!r}" for name, value in lengths.items() if value is not None]
        if len(given) != 1:
            raise ValueError(
                f"HMC was given {' and '.join(given) or 'no length for its trajectories'}. Say it "
                "once: `trajectory_length` (a time), `num_leapfrogs` (a count), or "
                "`prior_variance`, for the time (π/2) √(T · prior variance)."
            )
        if trajectory_length is not None:
            trajectory_length = positive(trajectory_length, "The trajectory length of HMC")
        if num_leapfrogs is not None:
            num_leapfrogs = integer(num_leapfrogs, "num_leapfrogs of HMC", at_least=1)
        if prior_variance is not None:
            prior_variance = positive(prior_variance, "The prior variance of HMC")
        self._trajectory_length, self._num_leapfrogs = trajectory_length, num_leapfrogs
        self._prior_variance = prior_variance
        self._jitter = fraction(jitter, "The jitter of HMC", zero=True)
        self._mass = check_mass(mass, "HMC")
        self._adapt_step_size = adapt_step_size
        self._target_accept = fraction(target_accept, "target_accept of HMC")

    @property
    def trajectory_length(self) -> float | None:
        """τ, given or by the rule; None where `num_leapfrogs` was given."""
        if self._prior_variance is None:
            return self._trajectory_length
        temperature = self._model.temperature if isinstance(self._model, ColdModel) else 1.0
        return izmailov_trajectory(self._prior_variance, temperature)

    def _start(self, key: Any, z: Any, density: Density) -> HMCState:
        vector = ravel_pytree(z)[0]
        key, search_key = jax.random.split(key)
        point = Point(vector, *density.gradient_and_terms(vector))
        learned = StepAndMass.start(
            search_key,
            point,
            density,
            step_size=self._step_size,
            adapt_step_size=self._adapt_step_size,
            mass=self._mass,
            num_warmup=self._num_warmup or 0,
        )
        potential = potential_energy(point.terms)
        return HMCState(
            z=z,
            gradient=point.gradient,
            terms=point.terms,
            rng_key=key,
            iteration=jnp.zeros((), jnp.int32),
            **learned._asdict(),
            statistics={
                "step_size": learned.step_size(self._step_size, True),
                "potential_energy": potential,
                "energy": potential,
                "accept_prob": jnp.zeros((), vector.dtype),
                "num_steps": jnp.zeros((), jnp.int32),
                "diverging": jnp.zeros((), bool),
            },
        )

    def _draw(self, state: HMCState, density: Density) -> HMCState:
        key, noise_key, accept_key, length_key, search_key = jax.random.split(state.rng_key, 5)
        start = Point(ravel_pytree(state.z)[0], state.gradient, state.terms)
        dtype = start.vector.dtype
        warming = state.iteration < self._num_warmup
        learned = StepAndMass(state.inverse_mass, state.averaging, state.variance)
        step_size = learned.step_size(self._step_size, warming)
        num_leapfrogs = self._leapfrogs(step_size, warming, length_key)
        point, energy, decision = hmc_step(
            start,
            jax.random.normal(noise_key, start.vector.shape, dtype),
            jax.random.uniform(accept_key, (), dtype),
            density,
            step_size=step_size,
            inverse_mass=state.inverse_mass,
            num_leapfrogs=num_leapfrogs,
        )
        learned = learned.updated(
            search_key,
            point,
            density,
            accept_prob=decision.accept_prob,
            target_accept=self._target_accept,
            mass=self._mass,
            made=state.iteration + 1,
            num_warmup=self._num_warmup or 0,
        )
        return HMCState(
            z=density.unravel(point.vector),
            gradient=point.gradient,
            terms=point.terms,
            rng_key=key,
            iteration=state.iteration + 1,
            **learned._asdict(),
            statistics={
                "step_size": step_size,
                "potential_energy": potential_energy(point.terms),
                "energy": energy,
                "accept_prob": decision.accept_prob,
                "num_steps": jnp.asarray(num_leapfrogs, jnp.int32),
                "diverging": decision.diverging,
            },
        )

    def _leapfrogs(self, step_size: Any, warming: Any, key: Any) -> Any:
        """L of one draw: a plain number when it is known before the run, else a traced one."""
        length = self.trajectory_length
        at_first = self._num_leapfrogs or _round_up((length or 0.0) / self._step_size)
        fixed = length is None or not self._adapt_step_size
        if fixed and not self._jitter:
            return at_first
        exact: Any = at_first if length is None else length / step_size
        if self._jitter:
            exact = exact * jax.random.uniform(
                key, (), step_size.dtype, 1 - self._jitter, 1 + self._jitter
            )
        ceiling = jnp.ceil(jnp.minimum(exact * (1 - 1e-6), 2.0**30))
        count = jnp.maximum(ceiling.astype(jnp.int32), 1)
        if not fixed:
            warm, after = (max(most, at_first) for most in (_WARMUP_LEAPFROGS, _MOST_LEAPFROGS))
            count = jnp.minimum(count, jnp.where(warming, warm, after))
        return count


def _round_up(number: float) -> int:
    """⌈number⌉, but 11 for 1.1 / 0.1, which is 11.000000000000002."""
    return max(1, math.ceil(number * (1 - 1e-6)))
