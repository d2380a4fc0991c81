"""What the warm-up of one chain learns for its leapfrogs: their size, and a mass."""

from typing import Any, NamedTuple

import jax.numpy as jnp

from bayesnn_ppl.inference.kernels.common.acceptance import select
from bayesnn_ppl.inference.kernels.common.adaptation import (
    DualAveraging,
    Mass,
    RunningVariance,
    collected,
    inverse_mass_of,
    variance_windows,
)
from bayesnn_ppl.inference.kernels.common.density import Density
from bayesnn_ppl.inference.kernels.full_batch.leapfrog import Point, search_leapfrog

__all__ = ["StepAndMass"]


class StepAndMass(NamedTuple):
    """Step size and mass of a chain, and what they are learned with.

    Attributes:
        inverse_mass: the diagonal of M⁻¹, shape () where it is not learned, else (d,).
        averaging: of the step size; None where it is not adapted.
        variance: of what was collected since the last window; None where no mass is learned.
    """

    inverse_mass: Any
    averaging: DualAveraging | None
    variance: RunningVariance | None

    @classmethod
    def start(
        cls,
        key: Any,
        point: Point,
        density: Density,
        *,
        step_size: float,
        adapt_step_size: bool,
        mass: Mass,
        num_warmup: int,
    ) -> "StepAndMass":
        """At a chain's start: unit mass, and a step size that is searched if there is a warm-up."""
        vector, learned = point.vector, mass != "identity"
        inverse_mass = jnp.ones_like(vector) if learned else jnp.ones((), vector.dtype)
        first = jnp.asarray(step_size, vector.dtype)
        if adapt_step_size and num_warmup:
            first = search_leapfrog(key, point, density, inverse_mass, first)
        seen = collected(mass, vector, point.gradient)
        return cls(
            inverse_mass,
            DualAveraging.start(first) if adapt_step_size else None,
            RunningVariance.start(seen) if learned else None,
        )

    def step_size(self, given: float, warming: Any) -> Any:
        """The step size of a draw, shape (); `given` where it is not adapted."""
        if self.averaging is None:
            return jnp.asarray(given, self.inverse_mass.dtype)
        return self.averaging.current(warming)

    def updated(
        self,
        key: Any,
        point: Point,
        density: Density,
        *,
        accept_prob: Any,
        target_accept: float,
        mass: Mass,
        made: Any,
        num_warmup: int,
    ) -> "StepAndMass":
        """After a draw.

        Args:
            key: of the search for a step size that follows a new mass.
            point: where the draw ended.
            density: U.
            accept_prob, target_accept: of the draw, and what its mean is to be.
            mass: which.
            made: draws made, this one included.
            num_warmup: draws of the warm-up; those after it change nothing.
        """
        inverse_mass, averaging, variance = self
        if averaging is not None:
            averaging = select(
                made <= num_warmup, averaging.update(accept_prob, target_accept), averaging
            )
        first, ends = variance_windows(num_warmup)
        if variance is not None and ends:
            seen = collected(mass, point.vector, point.gradient)
            collecting = (made > first) & (made <= ends[-1])
            variance = select(collecting, variance.update(seen), variance)
            at_end = jnp.isin(made, jnp.array(ends))
            inverse_mass = jnp.where(at_end, inverse_mass_of(mass, variance), inverse_mass)
            variance = select(at_end, RunningVariance.start(seen), variance)
            if averaging is not None:
                found = search_leapfrog(
                    key, point, density, inverse_mass, averaging.averaged, wanted=at_end
                )
                averaging = select(at_end, DualAveraging.start(found), averaging)
        return StepAndMass(inverse_mass, averaging, variance)
