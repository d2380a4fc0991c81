"""Approximations to the posterior, one per file; `fit` runs them."""

from bayesnn_ppl.inference.approximations.constant_sgd import ConstantSGD
from bayesnn_ppl.inference.approximations.dropout import Dropout
from bayesnn_ppl.inference.approximations.empirical_bayes import EmpiricalBayes
from bayesnn_ppl.inference.approximations.ensemble import Ensemble
from bayesnn_ppl.inference.approximations.laplace import Laplace
from bayesnn_ppl.inference.approximations.last_layer import LastLayer
from bayesnn_ppl.inference.approximations.marginal_likelihood import DuringTraining
from bayesnn_ppl.inference.approximations.maximum_a_posteriori import MAP
from bayesnn_ppl.inference.approximations.natural_gradient import NaturalGradient
from bayesnn_ppl.inference.approximations.probit import probit_probabilities
from bayesnn_ppl.inference.approximations.repulsive import Repulsive
from bayesnn_ppl.inference.approximations.sngp import SNGP
from bayesnn_ppl.inference.approximations.swag import SWAG
from bayesnn_ppl.inference.approximations.variational import Variational
from bayesnn_ppl.inference.approximations.variational_inference.quantile_guides import inverse_cdf

__all__ = [
    "MAP",
    "SNGP",
    "SWAG",
    "ConstantSGD",
    "Dropout",
    "DuringTraining",
    "EmpiricalBayes",
    "Ensemble",
    "Laplace",
    "LastLayer",
    "NaturalGradient",
    "Repulsive",
    "Variational",
    "inverse_cdf",
    "probit_probabilities",
]
