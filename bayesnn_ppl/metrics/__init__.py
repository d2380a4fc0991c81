"""Scores, calibration, information, fidelity, detection, referral and choosing a posterior."""

from bayesnn_ppl.metrics.active_learning import acquisition, highest
from bayesnn_ppl.metrics.calibration import (
    Reliability,
    ece_equal_mass,
    ece_equal_width,
    expected_calibration_error,
    reliability,
)
from bayesnn_ppl.metrics.class_scores import ClassScore, balanced_accuracy, scores_by_class
from bayesnn_ppl.metrics.comparison import compare
from bayesnn_ppl.metrics.cross_validation.folds import k_fold
from bayesnn_ppl.metrics.evaluation import evaluate
from bayesnn_ppl.metrics.evidence import LogEvidence, log_evidence
from bayesnn_ppl.metrics.fidelity import agreement, total_variation, wasserstein
from bayesnn_ppl.metrics.information import mutual_information, predictive_entropy
from bayesnn_ppl.metrics.leave_one_out.left_out_rows import CrossValidation
from bayesnn_ppl.metrics.leave_one_out.pareto_smoothed import LeaveOneOut, loo, loo_weights
from bayesnn_ppl.metrics.leave_one_out.pit import loo_pit
from bayesnn_ppl.metrics.ood import aupr, auroc, evaluate_ood, fpr_at_95_tpr
from bayesnn_ppl.metrics.reference import Reference, hmc_reference
from bayesnn_ppl.metrics.referral import (
    Referral,
    RiskCoverage,
    evaluate_referral,
    risk_coverage,
)
from bayesnn_ppl.metrics.score_tables import Comparison, Evaluation
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
from bayesnn_ppl.metrics.severity import by_severity

__all__ = [
    "ClassScore",
    "Comparison",
    "CrossValidation",
    "Evaluation",
    "LeaveOneOut",
    "LogEvidence",
    "Reference",
    "Referral",
    "Reliability",
    "RiskCoverage",
    "accuracy",
    "acquisition",
    "agreement",
    "aupr",
    "auroc",
    "balanced_accuracy",
    "brier",
    "by_severity",
    "compare",
    "crps_gaussian_mixture",
    "crps_samples",
    "ece_equal_mass",
    "ece_equal_width",
    "evaluate",
    "evaluate_ood",
    "evaluate_referral",
    "expected_calibration_error",
    "fpr_at_95_tpr",
    "highest",
    "hmc_reference",
    "interval_coverage",
    "interval_width",
    "k_fold",
    "log_evidence",
    "loo",
    "loo_pit",
    "loo_weights",
    "mutual_information",
    "nll_mixture",
    "nll_moment_matched",
    "nll_probabilities",
    "pinball",
    "predictive_entropy",
    "reliability",
    "risk_coverage",
    "rmse",
    "scores_by_class",
    "total_variation",
    "wasserstein",
]
