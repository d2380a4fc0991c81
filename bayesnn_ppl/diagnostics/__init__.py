"""Convergence in function space, then weight by weight, then the sampler and its temperature."""

from bayesnn_ppl.diagnostics.convergence.autocorrelation import (
    autocorrelation_time,
    effective_sample_size,
    ess_per_gradient,
)
from bayesnn_ppl.diagnostics.convergence.blockwise import convergence_by_block
from bayesnn_ppl.diagnostics.convergence.chains import chains_apart, moved_share
from bayesnn_ppl.diagnostics.convergence.dispersion import Dispersion, dispersion_of_starts
from bayesnn_ppl.diagnostics.convergence.measures import (
    Convergence,
    convergence_summary,
    ebfmi,
    ess_bulk,
    ess_tail,
    mcse_mean,
    rhat,
)
from bayesnn_ppl.diagnostics.convergence.moment_errors import function_moments
from bayesnn_ppl.diagnostics.convergence.nested import nested_rhat
from bayesnn_ppl.diagnostics.convergence.precision import Precision, precision_summary
from bayesnn_ppl.diagnostics.convergence.reference_distance import (
    ReferenceDistance,
    distance_to_reference,
)
from bayesnn_ppl.diagnostics.diagnosis.diagnosis import Diagnosis, diagnose
from bayesnn_ppl.diagnostics.diagnosis.fit_diagnosis import FitDiagnosis, diagnose_fit
from bayesnn_ppl.diagnostics.diagnosis.judgements import Judgement
from bayesnn_ppl.diagnostics.potential_energy.surface import (
    Segment,
    Surface,
    plane_basis,
    posterior_segment,
    posterior_surface,
)
from bayesnn_ppl.diagnostics.prior.class_collapse import ClassCollapse, collapse_of
from bayesnn_ppl.diagnostics.prior.comparison import PriorComparison, compare_priors
from bayesnn_ppl.diagnostics.prior.function_variation import (
    FunctionScale,
    LengthScale,
    function_scale,
    length_scale,
)
from bayesnn_ppl.diagnostics.prior.functions import function_draws
from bayesnn_ppl.diagnostics.prior.layer_activity import LayerActivity
from bayesnn_ppl.diagnostics.prior.nngp import NNGPPrediction, nngp_kernel, nngp_predict
from bayesnn_ppl.diagnostics.prior.predictive import PriorPredictive, prior_predictive
from bayesnn_ppl.diagnostics.symmetry.alignment import align
from bayesnn_ppl.diagnostics.symmetry.canonical import canonical_form
from bayesnn_ppl.diagnostics.symmetry.hidden_layers import HiddenLayer, find_hidden_layers
from bayesnn_ppl.diagnostics.symmetry.report import (
    RhatSummary,
    SymmetryReport,
    function_modes,
    symmetry_report,
)
from bayesnn_ppl.diagnostics.temperature.estimators import (
    configurational_series,
    expected_kinetic,
    naive_region,
    zero_step_limit,
)
from bayesnn_ppl.diagnostics.temperature.gradient_noise import (
    GradientNoise,
    hill_index,
    minibatch_noise,
    noise_heat,
    stable_tail_index,
)
from bayesnn_ppl.diagnostics.temperature.posterior_temperature import (
    configurational_temperature,
    has_kinetic_temperature,
    read_temperatures,
)
from bayesnn_ppl.diagnostics.temperature.readings import Thermometry
from bayesnn_ppl.diagnostics.temperature.verdict import judge_temperatures

__all__ = [
    "ClassCollapse",
    "Convergence",
    "Diagnosis",
    "Dispersion",
    "FitDiagnosis",
    "FunctionScale",
    "GradientNoise",
    "HiddenLayer",
    "Judgement",
    "LayerActivity",
    "LengthScale",
    "NNGPPrediction",
    "Precision",
    "PriorComparison",
    "PriorPredictive",
    "ReferenceDistance",
    "RhatSummary",
    "Segment",
    "Surface",
    "SymmetryReport",
    "Thermometry",
    "align",
    "autocorrelation_time",
    "canonical_form",
    "chains_apart",
    "collapse_of",
    "compare_priors",
    "configurational_series",
    "configurational_temperature",
    "convergence_by_block",
    "convergence_summary",
    "diagnose",
    "diagnose_fit",
    "dispersion_of_starts",
    "distance_to_reference",
    "ebfmi",
    "effective_sample_size",
    "ess_bulk",
    "ess_per_gradient",
    "ess_tail",
    "expected_kinetic",
    "find_hidden_layers",
    "function_draws",
    "function_modes",
    "function_moments",
    "function_scale",
    "has_kinetic_temperature",
    "hill_index",
    "judge_temperatures",
    "length_scale",
    "mcse_mean",
    "minibatch_noise",
    "moved_share",
    "naive_region",
    "nested_rhat",
    "nngp_kernel",
    "nngp_predict",
    "noise_heat",
    "plane_basis",
    "posterior_segment",
    "posterior_surface",
    "precision_summary",
    "prior_predictive",
    "read_temperatures",
    "rhat",
    "stable_tail_index",
    "symmetry_report",
    "zero_step_limit",
]
