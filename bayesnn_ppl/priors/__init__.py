"""Priors over network parameters.

A prior is a Distribution; a function `(name, shape) -> Distribution`, called once per parameter,
which may itself call `numpyro.sample`; a `NetworkPrior` over several parameters at once; or a table
of name patterns to any of these.
"""

from bayesnn_ppl.priors.common.base import NetworkPrior, Prior
from bayesnn_ppl.priors.common.fitting import constrained
from bayesnn_ppl.priors.common.patterns import by_name
from bayesnn_ppl.priors.elementwise.binary import bernoulli_weights
from bayesnn_ppl.priors.elementwise.fan_in import fan_in_normal, glorot_normal, he_normal
from bayesnn_ppl.priors.elementwise.generalised import GeneralisedNormal, generalised_normal
from bayesnn_ppl.priors.elementwise.heavy_tailed import cauchy, laplace, logistic, student_t
from bayesnn_ppl.priors.elementwise.iid import normal
from bayesnn_ppl.priors.elementwise.mixtures import normal_mixture, spike_and_slab
from bayesnn_ppl.priors.elementwise.noninformative import jeffreys
from bayesnn_ppl.priors.elementwise.published import bnn_hmc, cold_posterior_bnn
from bayesnn_ppl.priors.elementwise.unknown_scales import inverse_gamma_scale
from bayesnn_ppl.priors.structured.filters import correlated_filters
from bayesnn_ppl.priors.structured.gates import lstm_gates
from bayesnn_ppl.priors.structured.hierarchy import hierarchical, residual_blocks
from bayesnn_ppl.priors.structured.joint import joint_normal
from bayesnn_ppl.priors.structured.learned import learned_normal
from bayesnn_ppl.priors.structured.multivariate import kronecker_normal, multivariate_normal
from bayesnn_ppl.priors.structured.point_values import fixed, learned
from bayesnn_ppl.priors.structured.sequential import empirical
from bayesnn_ppl.priors.structured.shrinkage import horseshoe, regularised_horseshoe

__all__ = [
    "GeneralisedNormal",
    "NetworkPrior",
    "Prior",
    "bernoulli_weights",
    "bnn_hmc",
    "by_name",
    "cauchy",
    "cold_posterior_bnn",
    "constrained",
    "correlated_filters",
    "empirical",
    "fan_in_normal",
    "fixed",
    "generalised_normal",
    "glorot_normal",
    "he_normal",
    "hierarchical",
    "horseshoe",
    "inverse_gamma_scale",
    "jeffreys",
    "joint_normal",
    "kronecker_normal",
    "laplace",
    "learned",
    "learned_normal",
    "logistic",
    "lstm_gates",
    "multivariate_normal",
    "normal",
    "normal_mixture",
    "regularised_horseshoe",
    "residual_blocks",
    "spike_and_slab",
    "student_t",
]
