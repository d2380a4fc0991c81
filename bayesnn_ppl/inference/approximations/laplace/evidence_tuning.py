"""Which parameters share a tuned factor of the prior's precision, and what to say of the result."""

from typing import Any

import numpy as np

from bayesnn_ppl.inference.approximations.curvature.evidence import Tuned
from bayesnn_ppl.inference.approximations.curvature.gaussian import AroundMode
from bayesnn_ppl.inference.approximations.curvature.local import LocalModel
from bayesnn_ppl.inference.approximations.curvature.low_rank import LowRankCurvature
from bayesnn_ppl.inference.fitting.approximation import Finding

__all__ = ["by_group", "curvature_findings", "for_tuning", "groups_of", "tuning_findings"]

_FAR_FROM_A_MODE = 0.05  # nats for each parameter, by which a Newton step would gain


def groups_of(local: LocalModel, tuned: str) -> np.ndarray:
    """The group of each parameter, of those that share one factor."""
    if tuned == "element":
        return np.arange(local.dimension)
    groups = np.zeros(local.dimension, int)
    if tuned == "layer":
        for number, layer in enumerate(local.layers):
            groups[layer.part] = number
    return groups


def by_group(local: LocalModel, log_factors: Any, tuned: str) -> dict[str, float]:
    """Factors of the prior's precisions by the name of their layer, or of all."""
    names = [layer.name for layer in local.layers] if tuned == "layer" else ["all"]
    return {name: float(np.exp(v)) for name, v in zip(names, np.asarray(log_factors), strict=True)}


def for_tuning(curvature: Any, tuned: str) -> Any:
    """The curvature as the evidence needs it, diagonal where the factors leave it so."""
    one_block = len(getattr(curvature, "parts", ())) == 1
    if tuned == "element" or (tuned == "layer" and one_block):
        return curvature
    spectral = curvature.spectrum()
    return curvature if spectral is None else spectral


def tuning_findings(tuned: Tuned, what: str) -> list[Finding]:
    """What is wrong with tuned hyperparameters."""
    found = []
    if not tuned.converged:
        found.append(
            Finding(
                "doubt",
                "The evidence was still rising when its maximisation ended: the tuned precisions "
                "are not where it is greatest. Use `float64=True`.",
            )
        )
    if tuned.at_bound.size and what != "element":
        found.append(
            Finding(
                "doubt",
                f"The evidence rises without end in {tuned.at_bound.size} of the tuned prior "
                "precisions: the data say that those weights are 0, or do not bound them. Fix the "
                "prior there.",
            )
        )
    return found


def curvature_findings(gaussian: AroundMode, gain: float, *, tuned: bool) -> list[Finding]:
    """What is wrong with a curvature: not finite, not at a mode, or of too low a rank."""
    found = []
    if not np.isfinite(gaussian.log_evidence):
        found.append(
            Finding(
                "failure",
                "The log evidence is not finite: the curvature at the mode is not positive to "
                "the precision of the arithmetic. Use `float64=True`, or a narrower prior.",
            )
        )
    if gain > max(1.0, _FAR_FROM_A_MODE * gaussian.local.dimension) and not tuned:
        found.append(
            Finding(
                "doubt",
                f"The weights are not at a mode: a Newton step would add {gain:.3g} to the log "
                "density. The evidence is low by about that, and predictions are those around "
                "another point. Train for longer, or with all rows at the end.",
            )
        )
    if isinstance(gaussian.curvature, LowRankCurvature):
        least = float(gaussian.curvature.values[-1])
        if least > 1.0 and len(gaussian.curvature.values) < gaussian.local.dimension:
            found.append(
                Finding(
                    "doubt",
                    f"The least of the {len(gaussian.curvature.values)} eigenvalues that were kept "
                    f"is {least:.3g} times the prior's precision: directions that the data "
                    "determine count as if they were not. Raise `rank`.",
                )
            )
    return found
