"""Approximations to the posterior, one per file; `fit` runs them."""

from bayesnn_ppl.inference.approximations.constant_sgd import ConstantSGD
from bayesnn_ppl.inference.approximations.dropout import Dropout
from bayesnn_ppl.inference.approximations.ensemble import Ensemble
from bayesnn_ppl.inference.approximations.maximum_a_posteriori import MAP
from bayesnn_ppl.inference.approximations.repulsive import Repulsive
from bayesnn_ppl.inference.approximations.sngp import SNGP
from bayesnn_ppl.inference.approximations.swag import SWAG

__all__ = ["MAP", "SNGP", "SWAG", "ConstantSGD", "Dropout", "Ensemble", "Repulsive"]
