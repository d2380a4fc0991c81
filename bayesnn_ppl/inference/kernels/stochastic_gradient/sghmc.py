"""Stochastic-gradient Hamiltonian Monte Carlo."""

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import jax.numpy as jnp

from bayesnn_ppl.inference.kernels.common.acceptance import fraction
from bayesnn_ppl.inference.kernels.stochastic_gradient.base import (
    StepSettings,
    StochasticGradientKernel,
)
from bayesnn_ppl.inference.kernels.stochastic_gradient.integrators import (
    scaled_decay,
    symplectic_euler_step,
)
from bayesnn_ppl.inference.schedules.base import Schedule
from bayesnn_ppl.inference.schedules.simple import check_schedule, evaluate, reference

__all__ = ["SGHMC"]


class SGHMCVariables(NamedTuple):
    """What SGHMC has besides the position.

    Attributes:
        momentum: m, shape (d,).
    """

    momentum: Any


class SGHMC(StochasticGradientKernel):
    r"""Stochastic-gradient Hamiltonian Monte Carlo: Langevin dynamics by symplectic Euler.

        m' = β m - √ε ∇Û(θ) + √(2T(1 - β)) M^{1/2} ξ,    θ' = θ + √ε M⁻¹ m'

    Its target is exp(-U/T), with a bias of second order in √ε and that of the minibatch noise,
    which is as if T were larger; see `kernels/stochastic_gradient/integrators.py`. β = 0 is SGLD.

    Its settings may be stated in two ways, which are the same for N rows when lr = ε·N:

    * `step_size=ε, momentum_decay=β`, on the summed loss, as bnn_hmc does (Izmailov et al. 2021);
    * `learning_rate=lr, momentum_decay=β`, on the mean loss, as one does in deep learning and
      as Wenzel et al. (2020) do, whose time step is h = √(lr/N) = √ε.

    Where the step size is a schedule, β holds at its reference (see `Schedule.reference`; of
    another function, as of optax, at its largest value) and the friction (1 - β)/√ε is constant: a
    step c times shorter in time has β' = 1 - c(1 - β). No momentum at all, β = 0, stays so.

    Args:
        model: a NumPyro model of `(x, y)`.
        batch_size: B rows a step.
        step_size: ε > 0, a number or a schedule.
        learning_rate: lr > 0, a number or a schedule. Give this or `step_size`.
        momentum_decay: β in [0, 1); a friction of 1 - β a step.
        **common: those of `StochasticGradientKernel`.

    Raises:
        TypeError, ValueError: an argument is out of range, or both `step_size` and
            `learning_rate` are given, or neither.

    References:
        Chen, Fox and Guestrin (2014), arXiv:1402.4102, with no estimate of the gradient's noise;
        Wenzel et al. (2020), arXiv:2002.02405; Izmailov et al. (2021), arXiv:2104.14421.
    """

    kinetic_distribution = "symplectic Euler"

    step_arguments = ("step_size", "learning_rate")

    def __init__(
        self,
        model: Callable[..., Any],
        *,
        batch_size: int,
        step_size: float | Schedule | None = None,
        learning_rate: float | Schedule | None = None,
        momentum_decay: float = 0.9,
        **common: Any,
    ) -> None:
        if (step_size is None) == (learning_rate is None):
            raise ValueError(
                "SGHMC needs its step in one of two ways, and in one only: `step_size=ε` on the "
                "summed loss, or `learning_rate=lr` on the mean loss, lr = ε·N for N rows."
            )
        given: Any = step_size
        if step_size is None:
            given = check_schedule(learning_rate, "`learning_rate` of SGHMC")
        super().__init__(model, step_size=given, batch_size=batch_size, **common)
        self.step_size, self.learning_rate = step_size, learning_rate
        self.momentum_decay = fraction(momentum_decay, "`momentum_decay` of SGHMC", zero=True)

    @property
    def _reference_step_size(self) -> float | None:
        return None if self.step_size is None else reference(self.step_size)

    def with_step_size(self, step_size: float) -> Self:
        """A copy that has never run, at a step size ε on the summed loss."""
        fresh = super().with_step_size(step_size)
        fresh.learning_rate = None
        return fresh

    def _step_size_at(self, index: Any, rows: int) -> Any:
        if self.step_size is None:
            return evaluate(self.learning_rate, index) / rows
        return evaluate(self.step_size, index)

    def _begin(
        self, position: Any, normal: Any, settings: StepSettings, gradient: Any
    ) -> SGHMCVariables:
        return SGHMCVariables(jnp.sqrt(settings.temperature * settings.mass) * normal)

    def _step(
        self,
        position: Any,
        variables: SGHMCVariables,
        gradient: Any,
        normals: tuple[Any, ...],
        settings: StepSettings,
    ) -> tuple[Any, SGHMCVariables]:
        position, momentum = symplectic_euler_step(
            position,
            variables.momentum,
            gradient(position),
            settings.noise * normals[0],
            step_size=settings.step_size,
            momentum_decay=self._decay(settings),
            temperature=settings.temperature,
            mass=settings.mass,
        )
        return position, SGHMCVariables(momentum)

    def _decay(self, settings: StepSettings) -> Any:
        """β at the step's size."""
        given = self.learning_rate if self.step_size is None else self.step_size
        if not self.momentum_decay or not callable(given):
            return jnp.asarray(self.momentum_decay, settings.step_size.dtype)
        now = evaluate(given, settings.index).astype(settings.step_size.dtype)
        return scaled_decay(self.momentum_decay, now, reference(given))
