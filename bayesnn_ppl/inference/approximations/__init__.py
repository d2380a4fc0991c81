"""Approximations to the posterior, one per file; `fit` runs them."""

from bayesnn_ppl.inference.approximations.ensemble import Ensemble
from bayesnn_ppl.inference.approximations.laplace import Laplace
from bayesnn_ppl.inference.approximations.last_layer import LastLayer
from bayesnn_ppl.inference.approximations.marginal_likelihood import DuringTraining
from bayesnn_ppl.inference.approximations.maximum_a_posteriori import MAP
from bayesnn_ppl.inference.approximations.probit import probit_probabilities

__all__ = [
    "MAP",
    "DuringTraining",
    "Ensemble",
    "Laplace",
    "LastLayer",
    "probit_probabilities",
]
