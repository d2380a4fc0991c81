"""Approximations to the posterior, one per file; `fit` runs them."""

from bayesnn_ppl.inference.approximations.laplace.laplace import Laplace
from bayesnn_ppl.inference.approximations.laplace.last_layer import LastLayer
from bayesnn_ppl.inference.approximations.laplace.marginal_likelihood import DuringTraining
from bayesnn_ppl.inference.approximations.laplace.probit import probit_probabilities
from bayesnn_ppl.inference.approximations.sgd_iterates.constant_sgd import ConstantSGD
from bayesnn_ppl.inference.approximations.sgd_iterates.swag import SWAG
from bayesnn_ppl.inference.approximations.trained_networks.dropout import Dropout
from bayesnn_ppl.inference.approximations.trained_networks.ensemble import Ensemble
from bayesnn_ppl.inference.approximations.trained_networks.maximum_a_posteriori import MAP
from bayesnn_ppl.inference.approximations.trained_networks.repulsive import Repulsive
from bayesnn_ppl.inference.approximations.trained_networks.sngp import SNGP
from bayesnn_ppl.inference.approximations.variational.empirical_bayes import EmpiricalBayes
from bayesnn_ppl.inference.approximations.variational.guides.quantile_guides import inverse_cdf
from bayesnn_ppl.inference.approximations.variational.natural_gradient import NaturalGradient
from bayesnn_ppl.inference.approximations.variational.variational import Variational

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
