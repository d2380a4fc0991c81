"""The loss of a minibatch as a function of one vector of unconstrained coordinates."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import jax
import numpy as np
from numpyro import handlers
from numpyro.distributions.transforms import biject_to

from bayesnn_ppl.core.identity import StaticValue
from bayesnn_ppl.inference.kernels.common.minibatch_density import MinibatchDensity
from bayesnn_ppl.inference.kernels.common.row_independence import check_rows_independent
from bayesnn_ppl.inference.training.problem import Problem

__all__ = ["Layout", "check_minibatches", "minibatch_loss"]


@dataclass(frozen=True)
class Layout:
    """How the latent sites lie in one vector θ of unconstrained coordinates.

    Attributes:
        shapes: site and shape of its unconstrained value, in the vector's order.
    """

    shapes: tuple[tuple[str, tuple[int, ...]], ...]

    @classmethod
    def of(cls, problem: Problem) -> "Layout":
        """That of a model's latent sites, found by shapes alone."""

        def run(x: Any, y: Any) -> dict[str, Any]:
            seeded = handlers.seed(problem.model, jax.random.key(0))
            trace = handlers.trace(seeded).get_trace(x, y)
            sites = {name: trace[name] for name in problem.summary.latents}
            return {n: biject_to(s["fn"].support).inv(s["value"]) for n, s in sites.items()}

        shapes = jax.eval_shape(run, problem.x, problem.y)
        return cls(tuple((name, tuple(shapes[name].shape)) for name in sorted(shapes)))

    @property
    def dimension(self) -> int:
        """Entries of the vector."""
        return sum(prod(shape) for _, shape in self.shapes)

    def vectors(self, positions: Mapping[str, Any]) -> np.ndarray:
        """Site -> (..., *shape) as vectors (..., d)."""
        parts = []
        for name, shape in self.shapes:
            array = np.asarray(positions[name])
            parts.append(array.reshape(*array.shape[: array.ndim - len(shape)], prod(shape)))
        return np.concatenate(parts, axis=-1)

    def sites(self, vectors: Any) -> dict[str, Any]:
        """Vectors (..., d) as site -> (..., *shape); NumPy or traced."""
        found, begin = {}, 0
        for name, shape in self.shapes:
            end = begin + prod(shape)
            found[name] = vectors[..., begin:end].reshape((*vectors.shape[:-1], *shape))
            begin = end
        return found


def minibatch_loss(model: StaticValue, layout: Layout, rows: int) -> Callable[..., Any]:
    """J(θ; x, y) = Û(θ)/N of a minibatch, a function of (d,): see `run_sgd`."""
    density = MinibatchDensity(model.value, rows, layout.sites, layout.dimension)

    def loss(vector: Any, x: Any, y: Any) -> Any:
        return density.potential(vector, x, y) / rows

    return loss


def check_minibatches(problem: Problem, layout: Layout, batch_size: int, what: str) -> None:
    """Raise ValueError unless a few rows at a time can represent all, in the model's density."""
    if problem.summary.local:
        raise ValueError(
            f"The latent sites {list(problem.summary.local)} have one value for each training "
            f"row, which a minibatch does not have: {what} cannot take this model."
        )
    density = MinibatchDensity(problem.model, len(problem.x), layout.sites, layout.dimension)
    check_rows_independent(density, problem.x, problem.y, min(batch_size, len(problem.x)))
