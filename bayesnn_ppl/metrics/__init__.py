"""Scores, calibration, information and fidelity, as functions of plain arrays."""

from bayesnn_ppl.metrics.calibration import (
    Reliability,
    ece_equal_mass,
    ece_equal_width,
    expected_calibration_error,
    reliability,
)
from bayesnn_ppl.metrics.evaluation import Evaluation, evaluate
from bayesnn_ppl.metrics.fidelity import agreement, total_variation
from bayesnn_ppl.metrics.information import mutual_information, predictive_entropy
from bayesnn_ppl.metrics.scores import (
    accuracy,
    brier,
    crps_gaussian_mixture,
    crps_samples,
    interval_coverage,
    interval_width,
    nll_mixture,
    nll_moment_matched,
    nll_probabilities,
    pinball,
    rmse,
)

__all__ = [
    "Evaluation",
    "Reliability",
    "accuracy",
    "agreement",
    "brier",
    "crps_gaussian_mixture",
    "crps_samples",
    "ece_equal_mass",
    "ece_equal_width",
    "evaluate",
    "expected_calibration_error",
    "interval_coverage",
    "interval_width",
    "mutual_information",
    "nll_mixture",
    "nll_moment_matched",
    "nll_probabilities",
    "pinball",
    "predictive_entropy",
    "reliability",
    "rmse",
    "total_variation",
]
