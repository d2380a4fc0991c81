"""Approximations to the posterior, one per file; `fit` runs them."""

from bayesnn_ppl.inference.approximations.empirical_bayes import EmpiricalBayes
from bayesnn_ppl.inference.approximations.ensemble import Ensemble
from bayesnn_ppl.inference.approximations.maximum_a_posteriori import MAP
from bayesnn_ppl.inference.approximations.natural_gradient import NaturalGradient
from bayesnn_ppl.inference.approximations.variational import Variational
from bayesnn_ppl.inference.approximations.variational_inference.quantile_guides import inverse_cdf

__all__ = [
    "MAP",
    "EmpiricalBayes",
    "Ensemble",
    "NaturalGradient",
    "Variational",
    "inverse_cdf",
]
