"""Priors over network parameters.

A prior is a Distribution; a function `(name, shape) -> Distribution`, called once per parameter,
which may itself call `numpyro.sample`; a `NetworkPrior` over several parameters at once; or a table
of name patterns to any of these.
"""

from bayesnn_ppl.priors.base import NetworkPrior, Prior
from bayesnn_ppl.priors.binary import bernoulli_weights
from bayesnn_ppl.priors.fan_in import fan_in_normal, glorot_normal, he_normal
from bayesnn_ppl.priors.filters import correlated_filters
from bayesnn_ppl.priors.fitting import constrained
from bayesnn_ppl.priors.gates import lstm_gates
from bayesnn_ppl.priors.generalised import GeneralisedNormal, generalised_normal
from bayesnn_ppl.priors.heavy_tailed import cauchy, laplace, logistic, student_t
from bayesnn_ppl.priors.hierarchy import hierarchical, residual_blocks
from bayesnn_ppl.priors.iid import normal
from bayesnn_ppl.priors.joint import joint_normal
from bayesnn_ppl.priors.learned import learned_normal
from bayesnn_ppl.priors.mixtures import normal_mixture, spike_and_slab
from bayesnn_ppl.priors.multivariate import kronecker_normal, multivariate_normal
from bayesnn_ppl.priors.noninformative import jeffreys
from bayesnn_ppl.priors.patterns import by_name
from bayesnn_ppl.priors.published import bnn_hmc, cold_posterior_bnn
from bayesnn_ppl.priors.scale_mixture import inverse_gamma_scale
from bayesnn_ppl.priors.sequential import empirical
from bayesnn_ppl.priors.shrinkage import horseshoe, regularised_horseshoe

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
