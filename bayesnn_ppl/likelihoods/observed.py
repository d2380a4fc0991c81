"""What the distribution of the site `"y"` is, under its wrappers."""

from typing import Any

import numpyro.distributions as dist

from bayesnn_ppl.likelihoods.pseudo import PseudoLikelihood

__all__ = ["BERNOULLI", "CATEGORICAL", "base_distribution", "is_label", "likelihood_name"]

CATEGORICAL = (dist.CategoricalLogits, dist.CategoricalProbs)
BERNOULLI = (dist.BernoulliLogits, dist.BernoulliProbs)
_WRAPPERS = (
    dist.Independent,
    dist.ExpandedDistribution,
    dist.MaskedDistribution,
    PseudoLikelihood,
)


def base_distribution(fn: Any) -> Any:
    """The distribution of `y` inside `Independent`, `Expanded`, `Masked` and pseudo-likelihoods."""
    while isinstance(fn, _WRAPPERS):
        fn = fn.base_dist
    return fn


def likelihood_name(fn: Any) -> str:
    """What the observed site's distribution is called; a pseudo-likelihood is called one."""
    base = type(base_distribution(fn)).__name__
    return f"{type(fn).__name__} of {base}" if isinstance(fn, PseudoLikelihood) else base


def is_label(fn: Any) -> bool:
    """Whether the distribution is one over class labels."""
    return isinstance(base_distribution(fn), (*CATEGORICAL, *BERNOULLI))
