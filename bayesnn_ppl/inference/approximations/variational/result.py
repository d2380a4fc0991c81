"""How a variational fit ends: its record and findings."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import numpy as np

from bayesnn_ppl.core.identity import StaticValue
from bayesnn_ppl.inference.approximations.variational.convergence_checks import (
    judge_bound,
    judge_weights,
    pareto_k,
    thinned_losses,
)
from bayesnn_ppl.inference.approximations.variational.initialisation import Begun
from bayesnn_ppl.inference.approximations.variational.optimisation_loop import OptimisationResult
from bayesnn_ppl.inference.fitting.approximation import Finding, Fitted

__all__ = ["conclude", "weighed_draws"]


def conclude(
    result: OptimisationResult,
    begun: Begun,
    positions: Mapping[str, np.ndarray],
    log_weights: np.ndarray | None,
    found: list[Finding],
    record: Mapping[str, Any],
) -> Fitted:
    """What was found, with its findings."""
    findings = [*begun.findings]
    findings += judge_bound(
        result.losses, begun.steps, failed=result.failed, interrupted=result.interrupted
    )
    findings += found
    described: dict[str, Any] = {
        "steps": len(result.losses),
        "batch_size": begun.batch_size,
        "dimension": begun.target.dimension,
        "begun": dict(begun.record),
        "losses": thinned_losses(result.losses),
        "seconds": {"climb": round(result.seconds, 3)},
        **record,
    }
    if log_weights is not None:
        k = pareto_k(log_weights)
        findings += judge_weights(log_weights, k)
        finite = log_weights[np.isfinite(log_weights)]
        if finite.size:
            error = float(np.std(finite, ddof=1) / np.sqrt(finite.size)) if finite.size > 1 else 0.0
            described["elbo"] = {"mean": float(np.mean(finite)), "standard_error": error}
        described["pareto_k"] = None if k is None or not np.isfinite(k) else round(k, 3)
    return Fitted(
        positions={name: value[None] for name, value in positions.items()},
        record=described,
        findings=tuple(findings),
        interrupted=result.interrupted or begun.interrupted,
    )


def weighed_draws(
    family: Any, weigh: bool, parameters: Any, keys: Any, x: Any, y: Any
) -> tuple[dict[str, np.ndarray], np.ndarray | None]:
    """Draws of q, one for each key, and their log p̃ - log q where asked for.

    Args:
        family: has `importance(parameters, key, x, y)`, of one draw.
        weigh: whether the ratios are wanted, for which the model has to be run.
        parameters: of q.
        keys: (draws,).
        x, y: the data.

    Returns:
        Site -> unconstrained values (draws, ...), and (draws,) or None.
    """
    z, weights = _draws(StaticValue(family), weigh, parameters, keys, x, y)
    positions = {name: np.asarray(value) for name, value in z.items()}
    return positions, None if weights is None else np.asarray(weights, dtype=float)


@partial(jax.jit, static_argnames=("family", "weigh"))
def _draws(family: StaticValue, weigh: bool, parameters: Any, keys: Any, x: Any, y: Any) -> Any:
    def one(key: Any) -> Any:
        z, weight = family.value.importance(parameters, key, x, y)
        return z, weight if weigh else None

    return jax.lax.map(one, keys)
