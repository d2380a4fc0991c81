"""Class probabilities in closed form, from the mean and variance of each logit."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesnn_ppl.likelihoods.common.observed import BERNOULLI, CATEGORICAL, base_distribution
from bayesnn_ppl.posterior.posterior import Posterior

__all__ = ["probit_probabilities"]


def probit_probabilities(posterior: Posterior, x: Any, *, memory: int = 2**29) -> np.ndarray:
    r"""Class probabilities by MacKay's formula, in place of the mean over draws.

        p(y|x) ≈ softmax( μ / √(1 + π v / 8) ),     of two classes  σ( μ / √(1 + π v / 8) )

    with the mean μ and variance v of each logit over the draws. It takes logits as independent and
    normal, as those of a linearised network are for each class, and is smoother than the mean of
    few draws.

    Args:
        posterior: of a model with labels; best one that `Laplace` has linearised.
        x: inputs (N, ...).
        memory: bytes for one block of rows, about.

    Returns:
        Probabilities (N, ..., K).

    Raises:
        ValueError: the model has no labels.

    References:
        MacKay (1992), The evidence framework applied to classification networks, eq. 10;
        Gibbs (1997), section 5.4.1, for several classes.
    """
    components = posterior.predict(x, memory=memory).components
    if not isinstance(base_distribution(components.distribution), (*CATEGORICAL, *BERNOULLI)):
        raise ValueError(
            "MacKay's formula is about class labels, and this model predicts numbers. Use "
            "`posterior.predict(x)`."
        )
    return components.apply(_probit)


def _probit(components: Any) -> Any:
    def logits(fn: Any) -> Any:
        base = base_distribution(fn)
        return base.logits

    values = jax.vmap(logits)(components)
    scaled = values.mean(0) / jnp.sqrt(1 + jnp.pi / 8 * values.var(0))
    first = jax.tree.map(lambda a: a[0], components)
    if isinstance(base_distribution(first), BERNOULLI):
        p = jax.nn.sigmoid(scaled)
        return jnp.stack([1 - p, p], axis=-1)
    return jax.nn.softmax(scaled, axis=-1)
