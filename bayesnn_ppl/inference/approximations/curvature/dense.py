"""Curvature as dense blocks: one of all parameters, or one for each layer."""

from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve, solve_triangular

from bayesnn_ppl.inference.approximations.curvature.diagonal import DiagonalCurvature

__all__ = ["DenseCurvature", "FactoredCurvature"]


@partial(jax.tree_util.register_dataclass, data_fields=["roots"], meta_fields=["parts"])
@dataclass(frozen=True)
class DenseCurvature:
    """Roots R of the blocks (begin, end) of M = RᵀR; between blocks M is taken as 0.

    The posterior's precision is P = noise · M + diag(factors), of which every method speaks:
    `factors` (d,) multiply the prior's own precisions, which are 1 in these coordinates, and
    `noise` is the factor of the likelihood's precision. P itself is never formed: its factor is
    that of the roots of both parts, one above the other, which loses half as many digits.
    """

    roots: tuple[Any, ...]
    parts: tuple[tuple[int, int], ...]

    @property
    def matrices(self) -> tuple[Any, ...]:
        """The blocks of M."""
        return tuple(root.T @ root for root in self.roots)

    @staticmethod
    def _factor(root: Any, factors: Any, noise: Any) -> Any:
        """L of P = L Lᵀ."""
        both = jnp.concatenate([jnp.sqrt(noise) * root, jnp.diag(jnp.sqrt(factors))])
        triangle = jnp.linalg.qr(both, mode="r")
        return triangle.T * jnp.sign(jnp.diag(triangle))

    def _blocks(self, factors: Any, noise: Any) -> Any:
        for root, (begin, end) in zip(self.roots, self.parts, strict=True):
            yield slice(begin, end), self._factor(root, factors[begin:end], noise)

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
        parts = zip(self.roots, self.parts, strict=True)
        return jnp.concatenate([r.T @ (r @ vector[begin:end]) for r, (begin, end) in parts])

    def spectrum(self) -> DiagonalCurvature:
        """M in the coordinates of its eigenvectors, where one factor holds for each block."""
        values = [jnp.linalg.svd(root, compute_uv=False) for root in self.roots]
        return DiagonalCurvature(jnp.square(jnp.concatenate(values)))

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
        (own,) = self.roots
        return type(self)((solve_triangular(root, own.T, lower=True).T,), self.parts)

    def factored(self, factors: Any, noise: Any) -> "FactoredCurvature":
        """The same with P's factor at these hyperparameters, in whose terms all is cheap.

        P is formed and factored on the host in double precision, which loses no more digits than
        the roots in single precision have, and takes half as long.
        """
        triangles = []
        for root, (begin, end) in zip(self.roots, self.parts, strict=True):
            own = np.asarray(root, np.float64)
            precision = float(noise) * (own.T @ own)
            precision[np.diag_indices_from(precision)] += np.asarray(factors[begin:end])
            try:
                triangle = np.linalg.cholesky(precision)
            except np.linalg.LinAlgError:  # NaN, which the findings tell
                triangle = np.full_like(precision, np.nan)
            triangles.append(jnp.asarray(triangle, root.dtype))
        return FactoredCurvature(self.roots, self.parts, tuple(triangles))


@partial(
    jax.tree_util.register_dataclass, data_fields=["roots", "triangles"], meta_fields=["parts"]
)
@dataclass(frozen=True)
class FactoredCurvature(DenseCurvature):
    """`DenseCurvature` at the hyperparameters that are settled: its methods are for these alone.

    Attributes:
        triangles: L of each block, P = L Lᵀ.
    """

    triangles: tuple[Any, ...] = ()

    def _blocks(self, factors: Any, noise: Any) -> Any:
        for triangle, (begin, end) in zip(self.triangles, self.parts, strict=True):
            yield slice(begin, end), triangle
