"""Likelihoods: from a network's outputs to the distribution of the observed site `"y"`."""

from bayesnn_ppl.likelihoods.base import Likelihood
from bayesnn_ppl.likelihoods.bernoulli import bernoulli_likelihood as bernoulli
from bayesnn_ppl.likelihoods.categorical import categorical_likelihood as categorical
from bayesnn_ppl.likelihoods.gaussian import gaussian_likelihood as gaussian
from bayesnn_ppl.likelihoods.heteroscedastic import heteroscedastic_likelihood as heteroscedastic

__all__ = ["Likelihood", "bernoulli", "categorical", "gaussian", "heteroscedastic"]
