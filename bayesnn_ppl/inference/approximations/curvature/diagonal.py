"""Curvature as a diagonal."""

from typing import Any, NamedTuple, Self

import jax.numpy as jnp

__all__ = ["DiagonalCurvature"]


class DiagonalCurvature(NamedTuple):
    """The diagonal of M, (d,); methods as those of `DenseCurvature`."""

    values: Any

    def _precision(self, factors: Any, noise: Any) -> Any:
        return noise * self.values + factors

    def log_determinant(self, factors: Any, noise: Any) -> Any:
        """log |P|."""
        return jnp.log(self._precision(factors, noise)).sum()

    def solve(self, factors: Any, noise: Any, vector: Any) -> Any:
        """P⁻¹ v."""
        return vector / self._precision(factors, noise)

    def sample(self, factors: Any, noise: Any, normals: Any) -> Any:
        """Draws (S, d) of N(0, P⁻¹) from standard normals (S, d)."""
        return normals / jnp.sqrt(self._precision(factors, noise))

    def spectrum(self) -> Self:
        """Itself, because it is already diagonal."""
        return self

    def covariance(self, factors: Any, noise: Any) -> Any:
        """P⁻¹, (d, d)."""
        return jnp.diag(1 / self._precision(factors, noise))
