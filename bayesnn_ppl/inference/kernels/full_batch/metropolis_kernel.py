"""What kernels share whose draw is one proposal, accepted or rejected: the draw, and its state."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from bayesnn_ppl.core.arguments import positive
from bayesnn_ppl.inference.kernels.common.acceptance import fraction, metropolis
from bayesnn_ppl.inference.kernels.common.density import Density, Terms, potential_energy
from bayesnn_ppl.inference.kernels.common.model_kernel import ModelKernel
from bayesnn_ppl.inference.kernels.common.state_fields import named_fields
from bayesnn_ppl.inference.kernels.full_batch.leapfrog import Point

__all__ = ["MetropolisKernel", "MetropolisState", "Proposal"]


class Proposal(NamedTuple):
    """A point to go to.

    Attributes:
        point: θ', ∇U(θ') or None, and the terms of log p(θ').
        log_ratio: log of target times reverse proposal over target times proposal, shape ().
        statistics: of the proposal, name -> array of shape ().
    """

    point: Point
    log_ratio: Any
    statistics: Mapping[str, Any]


@named_fields
class MetropolisState(NamedTuple):
    """The state of one chain.

    Attributes:
        z: site -> unconstrained value.
        gradient, terms: ∇U(θ), shape (d,), where the proposal needs it, and the terms of log p(θ).
        rng_key: one key.
        iteration: draws made, warm-up included.
        adaptation: what the warm-up learns; None where it learns nothing.
        statistics: step_size (of the draw), potential_energy, accept_prob, diverging (the log
            ratio is below -1000, or not finite), and those of the proposal.
    """

    z: Any
    gradient: Any
    terms: Terms
    rng_key: Any
    iteration: Any
    adaptation: Any
    statistics: Mapping[str, Any]


class MetropolisKernel(ModelKernel):
    """Propose, accept with probability min(1, e^(log ratio)), and adapt in the warm-up.

    A subclass says where a chain begins, what it proposes, and how it adapts.

    Args:
        model: a NumPyro model.
        step_size: where the adaptation begins, or the step of all draws.
        adapt_step_size: whether the warm-up changes it.
        target_accept: the mean acceptance probability that the adaptation aims at, in (0, 1).
        **common: those of `ModelKernel`.
    """

    accept_step = True
    recorded: tuple[str, ...] = ("diverging", "potential_energy", "accept_prob", "step_size")
    _proposal_keys: ClassVar[int] = 1
    _proposal_statistics: ClassVar[Mapping[str, Any]] = {}  # name -> type

    def __init__(
        self,
        model: Callable[..., Any],
        *,
        step_size: float,
        adapt_step_size: bool,
        target_accept: float,
        **common: Any,
    ) -> None:
        super().__init__(model, **common)
        name = type(self).__name__
        self._step_size = positive(step_size, f"`step_size` of {name}")
        self._adapt_step_size = adapt_step_size
        self._target_accept = fraction(target_accept, f"`target_accept` of {name}")

    @abstractmethod
    def _point(self, vector: Any, density: Density) -> Point:
        """What is known at a chain's start θ, shape (d,)."""

    @abstractmethod
    def _begin(self, key: Any, point: Point, density: Density) -> tuple[Any, Any]:
        """`(key, adaptation)` of a chain that starts at `point`."""

    @abstractmethod
    def _step_size_of(self, adaptation: Any, iteration: Any, dtype: Any) -> Any:
        """The step size of the draw that `iteration` draws were made before."""

    @abstractmethod
    def _propose(
        self, point: Point, keys: list[Any], density: Density, step_size: Any, adaptation: Any
    ) -> Proposal:
        """A proposal from `point`; `keys` are `_proposal_keys` of them."""

    @abstractmethod
    def _adapted(self, adaptation: Any, accept_prob: Any, made: Any, vector: Any) -> Any:
        """What is learned when `made` draws are made, the last of them θ = `vector`."""

    def _start(self, key: Any, z: Any, density: Density) -> MetropolisState:
        vector = ravel_pytree(z)[0]
        point = self._point(vector, density)
        key, adaptation = self._begin(key, point, density)
        iteration = jnp.zeros((), jnp.int32)
        statistics = {
            "step_size": self._step_size_of(adaptation, iteration, vector.dtype),
            "potential_energy": potential_energy(point.terms),
            "accept_prob": jnp.zeros((), vector.dtype),
            "diverging": jnp.zeros((), bool),
            **{name: jnp.zeros((), kind) for name, kind in self._proposal_statistics.items()},
        }
        return MetropolisState(
            z, point.gradient, point.terms, key, iteration, adaptation, statistics
        )

    def _draw(self, state: MetropolisState, density: Density) -> MetropolisState:
        key, *keys, accept_key = jax.random.split(state.rng_key, self._proposal_keys + 2)
        here = Point(ravel_pytree(state.z)[0], state.gradient, state.terms)
        dtype = here.vector.dtype
        step_size = self._step_size_of(state.adaptation, state.iteration, dtype)
        proposal = self._propose(here, keys, density, step_size, state.adaptation)
        decision = metropolis(proposal.log_ratio, jax.random.uniform(accept_key, (), dtype))
        point = decision.choose(proposal.point, here)
        made = state.iteration + 1
        return MetropolisState(
            density.unravel(point.vector),
            point.gradient,
            point.terms,
            key,
            made,
            self._adapted(state.adaptation, decision.accept_prob, made, point.vector),
            {
                "step_size": step_size,
                "potential_energy": potential_energy(point.terms),
                "accept_prob": decision.accept_prob,
                "diverging": decision.diverging,
                **proposal.statistics,
            },
        )
