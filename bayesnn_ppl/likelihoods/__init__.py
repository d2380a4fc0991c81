"""Likelihoods: from a network's outputs to the distribution of the observed site `"y"`."""

from typing import Any as _Any

from bayesnn_ppl.core.arguments import no_attribute as _no_attribute
from bayesnn_ppl.likelihoods.common.base import Likelihood
from bayesnn_ppl.likelihoods.common.pseudo import PseudoLikelihood
from bayesnn_ppl.likelihoods.dirty import dirty_likelihood as dirty
from bayesnn_ppl.likelihoods.families.bernoulli import bernoulli_likelihood as bernoulli
from bayesnn_ppl.likelihoods.families.categorical import categorical_likelihood as categorical
from bayesnn_ppl.likelihoods.families.gaussian import gaussian_likelihood as gaussian
from bayesnn_ppl.likelihoods.families.heteroscedastic import (
    heteroscedastic_likelihood as heteroscedastic,
)
from bayesnn_ppl.likelihoods.families.laplace import laplace_likelihood as laplace
from bayesnn_ppl.likelihoods.families.log_normal import log_normal_likelihood as log_normal
from bayesnn_ppl.likelihoods.families.mixture_density import (
    mixture_density_likelihood as mixture_density,
)
from bayesnn_ppl.likelihoods.families.negative_binomial import (
    negative_binomial_likelihood as negative_binomial,
)
from bayesnn_ppl.likelihoods.families.ordinal import ordinal_likelihood as ordinal
from bayesnn_ppl.likelihoods.families.poisson import poisson_likelihood as poisson
from bayesnn_ppl.likelihoods.families.quantile import quantile_pseudo_likelihood as quantile
from bayesnn_ppl.likelihoods.families.student_t import student_t_likelihood as student_t

__all__ = [
    "Likelihood",
    "PseudoLikelihood",
    "bernoulli",
    "categorical",
    "dirty",
    "gaussian",
    "heteroscedastic",
    "laplace",
    "log_normal",
    "mixture_density",
    "negative_binomial",
    "ordinal",
    "poisson",
    "quantile",
    "student_t",
]


def __getattr__(name: str) -> _Any:
    other = {"normal": "gaussian", "softmax": "categorical"}.get(name.lower())
    hint = f"Did you mean `{other}`?" if other else ""
    raise _no_attribute(__name__, name, __all__, hint)
