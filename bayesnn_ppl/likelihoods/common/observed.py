"""What the distribution of the site `"y"` is, under its wrappers."""

from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist

from bayesnn_ppl.likelihoods.common.pseudo import PseudoLikelihood

CATEGORICAL = (dist.CategoricalLogits, dist.CategoricalProbs)
BERNOULLI = (dist.BernoulliLogits, dist.BernoulliProbs)
_WRAPPERS = (dist.Independent, dist.ExpandedDistribution, dist.MaskedDistribution, PseudoLikelihood)
_CENSORED = (
    dist.LeftCensoredDistribution,
    dist.RightCensoredDistribution,
    dist.IntervalCensoredDistribution,
)
_SAMPLES = 1000  # behind moments that have no closed form: 3 % of a standard deviation


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


def undrawn(site: Any) -> Any:
    """For `handlers.substitute`: zeros at the site `"y"`, where only its distribution is wanted.

    A distribution that cannot be drawn from still has densities.
    """
    if site["name"] == "y" and site["type"] == "sample" and not site["is_observed"]:
        return jnp.zeros(site["fn"].shape())
    return None


def predicted_distribution(fn: Any) -> Any:
    """The distribution of what is predicted: of a censored observation that of the value itself."""
    while isinstance(fn, (*_WRAPPERS, *_CENSORED)):
        fn = fn.base_dist
    return fn


def predicted_shape(fn: Any) -> tuple[int, ...]:
    """The shape of a prediction: of `y`, without the two ends of an interval."""
    base = base_distribution(fn)
    return tuple(fn.shape())[: -1 if isinstance(base, dist.IntervalCensoredDistribution) else None]


def is_partly_observed(fn: Any) -> bool:
    """Whether elements of `y` may be masked or censored."""
    while isinstance(fn, _WRAPPERS):
        if isinstance(fn, dist.MaskedDistribution):
            return True
        fn = fn.base_dist
    return isinstance(fn, _CENSORED)


def exactly_observed(fn: Any, y: Any) -> Any:
    """Which elements of `y` are observed as they are: neither masked nor censored.

    Args:
        fn: the distribution of `y`.
        y: targets, of its shape.

    Returns:
        Booleans of `predicted_shape(fn)`.
    """
    exact = jnp.ones(predicted_shape(fn), bool)
    while isinstance(fn, _WRAPPERS):
        if isinstance(fn, dist.MaskedDistribution):
            elements = len(predicted_shape(fn)) - len(fn.batch_shape)
            exact &= jnp.reshape(fn._mask, (*jnp.shape(fn._mask), *[1] * elements))
        fn = fn.base_dist
    if isinstance(fn, dist.IntervalCensoredDistribution):
        return exact & ~fn.left_censored & ~fn.right_censored & (y[..., 0] == y[..., 1])
    return exact & ~fn.censored if isinstance(fn, _CENSORED) else exact


def moments(fn: Any) -> tuple[Any, Any]:
    """Mean and variance of what is predicted, each of shape `predicted_shape(fn)`.

    Where the distribution has no closed form, those of 1000 samples. They come from the same random
    numbers for every draw of the weights, so that chains are compared without their noise.
    """
    base, shape = predicted_distribution(fn), predicted_shape(fn)
    try:
        mean, variance = base.mean, base.variance
    except NotImplementedError:
        mean, variance = _sampled_moments(base)
    return jnp.broadcast_to(mean, shape), jnp.broadcast_to(variance, shape)


def drawn(fn: Any, key: Any) -> Any:
    """A sample of a distribution; ValueError where its class cannot draw one."""
    try:
        return fn.sample(key)
    except NotImplementedError as error:
        raise ValueError(
            f'The distribution of the site "y", {type(predicted_distribution(fn)).__name__}, '
            "cannot be drawn from: it has densities, so `loo` works, and its predictions need "
            "samples. Define `sample(key, sample_shape)` in its class."
        ) from error


def _sampled_moments(base: Any) -> tuple[Any, Any]:
    # One after another: all draws and rows of a block pass here together.
    def step(state: tuple[Any, Any], numbered: tuple[Any, Any]) -> tuple[tuple[Any, Any], None]:
        mean, squares = state
        number, key = numbered
        sample = jnp.asarray(drawn(base, key), mean.dtype)
        moved = mean + (sample - mean) / number
        return (moved, squares + (sample - mean) * (sample - moved)), None

    zero = jnp.zeros(base.shape(), jnp.result_type(float))
    keys = jax.random.split(jax.random.key(0), _SAMPLES)
    state, _ = jax.lax.scan(step, (zero, zero), (jnp.arange(1.0, _SAMPLES + 1), keys))
    return state[0], state[1] / (_SAMPLES - 1)
