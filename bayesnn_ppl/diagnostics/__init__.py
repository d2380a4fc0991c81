"""Convergence in function space, then weight by weight, then the sampler and its temperature."""

from bayesnn_ppl.diagnostics.autocorrelation import (
    autocorrelation_time,
    effective_sample_size,
    ess_per_gradient,
)
from bayesnn_ppl.diagnostics.blockwise import convergence_by_block
from bayesnn_ppl.diagnostics.chains import chains_apart, moved_share
from bayesnn_ppl.diagnostics.convergence import (
    Convergence,
    convergence_summary,
    ebfmi,
    ess_bulk,
    ess_tail,
    mcse_mean,
    rhat,
)
from bayesnn_ppl.diagnostics.diagnosis import Diagnosis, diagnose
from bayesnn_ppl.diagnostics.dispersion import Dispersion, dispersion_of_starts
from bayesnn_ppl.diagnostics.gradient_noise import (
    GradientNoise,
    hill_index,
    minibatch_noise,
    noise_heat,
    stable_tail_index,
)
from bayesnn_ppl.diagnostics.nested import nested_rhat
from bayesnn_ppl.diagnostics.posterior_temperature import (
    configurational_temperature,
    has_thermometer,
    read_temperatures,
)
from bayesnn_ppl.diagnostics.temperature import (
    configurational_series,
    expected_kinetic,
    naive_region,
    zero_step_limit,
)
from bayesnn_ppl.diagnostics.temperature_verdict import judge_temperatures
from bayesnn_ppl.diagnostics.thermometry import Thermometry

__all__ = [
    "Convergence",
    "Diagnosis",
    "Dispersion",
    "GradientNoise",
    "Thermometry",
    "autocorrelation_time",
    "chains_apart",
    "configurational_series",
    "configurational_temperature",
    "convergence_by_block",
    "convergence_summary",
    "diagnose",
    "dispersion_of_starts",
    "ebfmi",
    "effective_sample_size",
    "ess_bulk",
    "ess_per_gradient",
    "ess_tail",
    "expected_kinetic",
    "has_thermometer",
    "hill_index",
    "judge_temperatures",
    "mcse_mean",
    "minibatch_noise",
    "moved_share",
    "naive_region",
    "nested_rhat",
    "noise_heat",
    "read_temperatures",
    "rhat",
    "stable_tail_index",
    "zero_step_limit",
]
