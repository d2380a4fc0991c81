"""Approximations to the posterior, one per file; `fit` runs them."""

from bayesnn_ppl.inference.approximations.ensemble import Ensemble
from bayesnn_ppl.inference.approximations.maximum_a_posteriori import MAP

__all__ = ["MAP", "Ensemble"]
