"""Macro steps: pieces of a trajectory, each in as few leapfrogs as hold its energy."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from bayesnn_ppl.inference.kernels.common.density import Density, Terms, log_ratio
from bayesnn_ppl.inference.kernels.full_batch.leapfrog import Point

__all__ = ["MacroStep", "MacroSteps", "Place"]


class Place(NamedTuple):
    """A point of a trajectory.

    Attributes:
        vector, momentum, gradient: θ, p and ∇U(θ), shape (d,).
        terms: of log p(θ).
        loss: H(θ, p) minus that of the trajectory's start, shape ().
    """

    vector: Any
    momentum: Any
    gradient: Any
    terms: Terms
    loss: Any

    @property
    def point(self) -> Point:
        """Without the momentum."""
        return Point(self.vector, self.gradient, self.terms)


class MacroStep(NamedTuple):
    """What a macro step came to.

    Attributes:
        end: where.
        halvings: ℓ, of the step size.
        held: whether 2^ℓ leapfrogs held the energy; else ℓ + 1 is more than there may be.
        reversible: whether a macro step back from the end takes the same ℓ, and so the same path.
        gradients: all that were computed.
    """

    end: Place
    halvings: Any
    held: Any
    reversible: Any
    gradients: Any


@dataclass(frozen=True)
class MacroSteps:
    """How macro steps are made.

    Attributes:
        density: U.
        start: the beginning of the trajectory, to which energies are compared.
        step_size: h, the time of a macro step, shape ().
        inverse_mass: the diagonal of M⁻¹, shape () or (d,).
        energy_range: the most that H may vary over the leapfrogs of one macro step, shape ().
        max_halvings: the most halvings.
    """

    density: Density
    start: Place
    step_size: Any
    inverse_mass: Any
    energy_range: Any
    max_halvings: int

    def step(self, place: Place, direction: Any, wanted: Any = True) -> MacroStep:
        """A macro step from a place, forward (direction 1) or backward in time (-1).

        It takes the smallest ℓ with which 2^ℓ leapfrogs of size h/2^ℓ keep the range of H, ends
        included, within the limit. The way back could take a smaller one; then the two are no
        moves of one reversible map, and the step is not to be used. Nothing is computed where a
        step is not wanted, as of a chain that waits for others in a batch.
        """
        most = jnp.where(wanted, self.max_halvings + 1, 0)
        halvings, end, held, gradients = self._coarsest(place, direction, most)
        back, _, _, more = self._coarsest(end, -direction, jnp.where(held, halvings, 0))
        return MacroStep(end, halvings, held, held & (back == halvings), gradients + more)

    def _coarsest(self, place: Place, direction: Any, below: Any) -> tuple[Any, Place, Any, Any]:
        """The smallest ℓ < `below` that holds the energy, or `below`; where it ends; whether it
        held; gradients computed.
        """
        zero = jnp.zeros((), jnp.int32)

        def going(carry: tuple[Any, ...]) -> Any:
            return ~carry[2] & (carry[0] < below)

        def halve(carry: tuple[Any, ...]) -> tuple[Any, ...]:
            halvings, _, _, gradients = carry
            count = jnp.where(going(carry), 2**halvings, 0)
            end, held, made = self._leapfrogs(place, direction, count)
            return jnp.where(held, halvings, halvings + 1), end, held, gradients + made

        return jax.lax.while_loop(going, halve, (zero, place, jnp.zeros((), bool), zero))

    def _leapfrogs(self, place: Place, direction: Any, count: Any) -> tuple[Place, Any, Any]:
        """`count` leapfrogs, or fewer where the range of H is too large before; whether it is
        not; how many.
        """
        step_size = direction * self.step_size / jnp.maximum(count, 1)

        def leapfrog(carry: tuple[Any, ...]) -> tuple[Any, ...]:
            made, place, low, high = carry
            half = place.momentum - 0.5 * step_size * place.gradient
            vector = place.vector + step_size * self.inverse_mass * half
            gradient, terms = self.density.gradient_and_terms(vector)
            momentum = half - 0.5 * step_size * gradient
            first = self.start.momentum
            kinetic_losses = 0.5 * self.inverse_mass * (first - momentum) * (first + momentum)
            loss = -log_ratio(terms, self.start.terms, kinetic_losses)
            loss = jnp.where(jnp.isfinite(loss), loss, jnp.inf)
            place = Place(vector, momentum, gradient, terms, loss)
            return made + 1, place, jnp.minimum(low, loss), jnp.maximum(high, loss)

        def holds(low: Any, high: Any) -> Any:
            return high - low <= self.energy_range

        made, end, low, high = jax.lax.while_loop(
            lambda carry: (carry[0] < count) & holds(*carry[2:]),
            leapfrog,
            (jnp.zeros((), jnp.int32), place, place.loss, place.loss),
        )
        return end, holds(low, high), made
