"""What the components of a posterior predictive mixture say: moments, densities, quantiles.

The components are one distribution of `"y"` per draw. Each function here works on one block of
rows; the draws are the leading axis.
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax.scipy.special import logsumexp, xlogy
from numpyro import handlers

from bayesnn_ppl.core.precision import arithmetic
from bayesnn_ppl.likelihoods.common.observed import (
    BERNOULLI,
    base_distribution,
    drawn,
    exactly_observed,
    is_label,
    is_partly_observed,
    moments,
    predicted_distribution,
    predicted_shape,
    undrawn,
)
from bayesnn_ppl.likelihoods.common.pseudo import PseudoLikelihood

__all__ = [
    "component_moments",
    "exact_elements",
    "function_moments",
    "function_record",
    "has_exact_quantile",
    "label_summary",
    "log_densities",
    "mixture_information",
    "mixture_log_density",
    "mixture_moments",
    "mixture_quantile",
    "observed_site",
]


def observed_site(model: Any, values: Mapping[str, Any], x: Any) -> Any:
    """The distribution of `"y"` at inputs x, for one draw of the latent sites."""
    model = handlers.substitute(model, data=dict(values))
    model = handlers.substitute(model, substitute_fn=undrawn)  # y, which nobody reads
    model = handlers.seed(model, jax.random.key(0))
    fn = handlers.trace(model).get_trace(x)["y"]["fn"]
    # A pseudo-likelihood has trained the weights, and scores nothing.
    return fn.base_dist if isinstance(fn, PseudoLikelihood) else fn


def _probabilities(fn: Any) -> Any:
    base = base_distribution(fn)
    p = base.probs
    if isinstance(base, BERNOULLI):
        p = jnp.stack([1 - p, p], axis=-1)
    return jnp.broadcast_to(p, (*fn.shape(), p.shape[-1]))


def _moments(fn: Any) -> Any:
    if is_label(fn):
        p = _probabilities(fn)
        return p, p * (1 - p)
    return moments(fn)


def function_moments(fn: Any) -> Any:
    """`_moments`, and centre and squared scale of a Cauchy distribution, which has none.

    Chains can be compared by these, and not by NaN.
    """
    base, shape = predicted_distribution(fn), predicted_shape(fn)
    if isinstance(base, dist.Cauchy):
        return jnp.broadcast_to(base.loc, shape), jnp.broadcast_to(base.scale**2, shape)
    return _moments(fn)


def component_moments(components: Any) -> Any:
    """Mean and variance of each component, (S, B, ...); of labels, (S, B, ..., K)."""
    return jax.vmap(function_moments)(components)


def function_record(model: Any, values: Mapping[str, Any], x: Any, y: Any, key: Any) -> Any:
    """What one draw says at inputs `x`, to be kept instead of its weights, or with them.

    Returns:
        For labels `probability` (N, ..., K); otherwise `mean` and `sd` (N, ...); always `y`, one
        sample of the targets; where `y` is given `log_likelihood` (N,) and, if some of its elements
        may be masked or censored, `exact` (N, ...), those that are not. Model's units.
    """
    fn = observed_site(model, values, x)
    mean, variance = function_moments(fn)
    kept = {"probability": mean} if is_label(fn) else {"mean": mean, "sd": jnp.sqrt(variance)}
    kept["y"] = drawn(fn, key)
    if y is not None:
        kept["log_likelihood"] = fn.log_prob(y)
        if is_partly_observed(fn):
            kept["exact"] = exactly_observed(fn, y)
    return kept


def mixture_moments(components: Any) -> Any:
    """Mean of the means, mean of the variances and variance of the means, over draws."""
    means, variances = jax.vmap(_moments)(components)
    return means.mean(0), variances.mean(0), means.var(0)


def mixture_information(components: Any) -> Any:
    """Entropy of the mixture, and its mutual information with the weights, in nats."""
    p = jax.vmap(_probabilities)(components)
    mixture = p.mean(0)
    entropy = -xlogy(mixture, mixture).sum(-1)
    return entropy, entropy + xlogy(p, p).sum(-1).mean(0)


def label_summary(components: Any) -> Any:
    """`mixture_moments` and `mixture_information`, for what one of them costs."""
    return (*mixture_moments(components), *mixture_information(components))


def log_densities(components: Any, y: Any) -> Any:
    """log p(y_i|x_i, θ_s), shape (S, B)."""
    return jax.vmap(lambda fn: fn.log_prob(y))(components)


def exact_elements(components: Any, y: Any) -> Any:
    """Which elements of y every draw says are neither masked nor censored, (B, ...)."""
    return jax.vmap(lambda fn: exactly_observed(fn, y))(components).all(0)


def mixture_log_density(components: Any, y: Any) -> Any:
    """log (1/S) Σ_s p(y_i|x_i, θ_s), shape (B,)."""
    log_p = log_densities(components, y)
    return logsumexp(log_p, axis=0) - jnp.log(log_p.shape[0])


def mixture_quantile(components: Any, levels: Any) -> Any:
    """Solve mean_s F_s(v) = q by bisection between the least and greatest component quantile.

    The level comes as an array (B,) of equal entries, so that another one compiles nothing.
    """
    q = levels[0]

    def component_quantiles(fn: Any) -> Any:
        """The least and the greatest of the distributions that a component is made of."""
        base = predicted_distribution(fn)
        if isinstance(base, dist.MixtureSameFamily):
            inner = base.component_distribution.icdf(q)
            return inner.min(-1), inner.max(-1)
        quantile = jnp.broadcast_to(base.icdf(q), predicted_shape(fn))
        return quantile, quantile

    least, greatest = jax.vmap(component_quantiles)(components)

    def halve(_: int, bracket: Any) -> Any:
        low, high = bracket
        middle = 0.5 * (low + high)
        below = jax.vmap(lambda fn: predicted_distribution(fn).cdf(middle))(components).mean(0) < q
        return jnp.where(below, middle, low), jnp.where(below, high, middle)

    low, high = jax.lax.fori_loop(0, 50, halve, (least.min(0), greatest.max(0)))
    return 0.5 * (low + high)


def has_exact_quantile(fn: Any) -> bool:
    """Whether distribution function and its inverse are there, and can be computed."""
    base = predicted_distribution(fn)
    if base.support.is_discrete:
        return False
    if isinstance(base, dist.MixtureSameFamily):  # it has no inverse, and its parts bracket one
        return has_exact_quantile(base.component_distribution)
    try:  # some inverses need a library that is not there, or are declared and not implemented
        with arithmetic(float64=True):  # no number is computed, and either precision has a shape
            jax.eval_shape(lambda d: (d.icdf(0.5), d.cdf(0.5)), base)
    except (ImportError, NotImplementedError, TypeError):
        return False
    return True
