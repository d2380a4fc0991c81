"""Curvature as dense blocks: one of all parameters, or one for each layer."""

from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve, cholesky, solve_triangular

from bayesnn_ppl.inference.curvature.diagonal import DiagonalCurvature

__all__ = ["DenseCurvature"]


@partial(jax.tree_util.register_dataclass, data_fields=["matrices"], meta_fields=["parts"])
@dataclass(frozen=True)
class DenseCurvature:
    """Blocks (begin, end) of M; between blocks M is taken as 0.

    The posterior's precision is P = noise · M + diag(factors), of which every method speaks:
    `factors` (d,) multiply the prior's own precisions, which are 1 in these coordinates, and
    `noise` is the factor of the likelihood's precision.
    """

    matrices: tuple[Any, ...]
    parts: tuple[tuple[int, int], ...]

    def _factor(self, matrix: Any, factors: Any, noise: Any) -> Any:
        return cholesky(noise * matrix + jnp.diag(factors), lower=True)

    def _blocks(self, factors: Any, noise: Any) -> Any:
        for matrix, (begin, end) in zip(self.matrices, self.parts, strict=True):
            yield slice(begin, end), self._factor(matrix, factors[begin:end], noise)

    def log_determinant(self, factors: Any, noise: Any) -> Any:
        """log |P|."""
        return sum(2 * jnp.log(jnp.diag(f)).sum() for _, f in self._blocks(factors, noise))

    def solve(self, factors: Any, noise: Any, vector: Any) -> Any:
        """P⁻¹ v."""
        return jnp.concatenate(
            [cho_solve((f, True), vector[p]) for p, f in self._blocks(factors, noise)]
        )

    def sample(self, factors: Any, noise: Any, normals: Any) -> Any:
        """Draws (S, d) of N(0, P⁻¹) from standard normals (S, d)."""
        return jnp.concatenate(
            [
                solve_triangular(f, normals[:, p].T, lower=True, trans=1).T
                for p, f in self._blocks(factors, noise)
            ],
            axis=1,
        )

    def product(self, vector: Any) -> Any:
        """M v."""
        parts = zip(self.matrices, self.parts, strict=True)
        return jnp.concatenate([m @ vector[begin:end] for m, (begin, end) in parts])

    def spectrum(self) -> DiagonalCurvature:
        """M in the coordinates of its eigenvectors, where one factor holds for each block."""
        return DiagonalCurvature(jnp.concatenate([_eigenvalues(m) for m in self.matrices]))

    def covariance(self, factors: Any, noise: Any) -> Any:
        """P⁻¹, (d, d)."""
        return jax.scipy.linalg.block_diag(
            *(
                cho_solve((f, True), jnp.eye(len(f), dtype=f.dtype))
                for _, f in self._blocks(factors, noise)
            )
        )

    def in_prior(self, root: Any) -> Self:
        """One block in the coordinates in which a prior precision L Lᵀ, `root` = L, is one."""
        (matrix,) = self.matrices
        half = solve_triangular(root, matrix, lower=True)
        return type(self)((solve_triangular(root, half.T, lower=True),), self.parts)


def _eigenvalues(matrix: Any) -> Any:
    return jnp.maximum(jnp.linalg.eigvalsh(matrix), 0.0)
