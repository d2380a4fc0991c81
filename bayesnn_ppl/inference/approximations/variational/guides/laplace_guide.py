"""The normal whose precision is the curvature of log p̃ at its mode: the Laplace guide's end."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesnn_ppl.core.identity import StaticValue
from bayesnn_ppl.inference.approximations.variational.target import Target
from bayesnn_ppl.inference.fitting.approximation import Finding

__all__ = ["laplace_draws"]


@partial(jax.jit, static_argnames="static")
def _precision(static: StaticValue, centre: Any, psi: Any, x: Any, y: Any) -> Any:
    target: Target = static.value

    def potential(vector: Any) -> Any:
        key = jax.random.key(0)
        return -target.log_density(target.unflatten(vector), psi, key, x, y, None)

    # No forward mode: our convolutions have none.
    return jax.jacrev(jax.grad(potential))(centre)


@partial(jax.jit, static_argnames="static")
def _log_densities(static: StaticValue, vectors: Any, psi: Any, x: Any, y: Any) -> Any:
    target: Target = static.value

    def one(vector: Any) -> Any:
        key = jax.random.key(0)
        return target.log_density(target.unflatten(vector), psi, key, x, y, None)

    return jax.lax.map(one, vectors)


def laplace_draws(
    target: Target, centre: Any, psi: Any, x: Any, y: Any, *, draws: int, seed: Any
) -> tuple[np.ndarray, np.ndarray, list[Finding]]:
    """Draws of N(centre, H⁻¹), H = -∇²log p̃ at the centre, and their log p̃ - log q.

    Where H is not positive definite the absolute value of its eigenvalue replaces it.

    Returns:
        Draws (draws, d), log ratios (draws,), and what was found.
    """
    static = StaticValue(target)
    precision = np.asarray(_precision(static, centre, psi, x, y), dtype=float)
    if not np.isfinite(precision).all():
        raise ValueError(
            "The curvature of the log density at the mode is not finite. Standardise inputs and "
            'targets, or use a guide that needs none, such as "normal".'
        )
    values, vectors = np.linalg.eigh(0.5 * (precision + precision.T))
    findings = []
    flat = 1e-7 * float(np.abs(values).max())
    bad = int((values <= flat).sum())
    if bad:
        findings.append(
            Finding(
                "failure",
                f"The curvature is not positive in {bad} of {len(values)} directions: the fit "
                "did not end at a mode of the density in unconstrained coordinates, or the "
                "posterior is flat there. The absolute curvature replaces it. Make more "
                'steps, or use guide="normal", or `Laplace(structure=...)`, whose Gauss-Newton '
                "curvature is never negative.",
            )
        )
    values = np.maximum(np.abs(values), flat)
    normal = np.asarray(jax.random.normal(seed, (draws, len(values))), dtype=float)
    found = np.asarray(centre, dtype=float) + (normal / np.sqrt(values)) @ vectors.T
    dtype = jnp.result_type(float)
    log_p = np.asarray(_log_densities(static, found.astype(dtype), psi, x, y), dtype=float)
    log_q = -0.5 * (normal**2).sum(1) + 0.5 * np.log(values / (2 * np.pi)).sum()
    return found, log_p - log_q, findings
