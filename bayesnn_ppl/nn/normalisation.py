"""Normalisation that leaves the observations independent of each other."""

from typing import Any

import jax.numpy as jnp
from flax import linen
from flax.linen.dtypes import promote_dtype
from jax import lax


class FilterResponseNorm(linen.Module):
    r"""Filter response normalisation with its thresholded linear unit.

        z = max(γ x / √(ν² + ε) + β, τ),    ν² = the mean of x² over height and width

    for each row and channel by itself. Nothing depends on the other rows, so the likelihood
    remains a product over observations; batch normalisation ties the rows of a batch together,
    and the density that a sampler would see is that of no model of the single observation.

    The parameters are `gamma`, `beta` and, with `threshold`, `tau`, each of shape (channels,),
    initially 1, 0 and 0.

    Attributes:
        epsilon: ε > 0, added to ν².
        threshold: whether to apply max(·, τ). bnn_hmc does, also where swish follows; without it
            the layer is differentiable everywhere.

    Raises:
        ValueError: (when called) inputs without a space axis, or an ε that is not positive.

    References:
        Singh and Krishnan (2020), Filter Response Normalization Layer, equations 1 to 4.
    """

    epsilon: float = 1e-6
    threshold: bool = True

    @linen.compact
    def __call__(self, x: Any) -> Any:
        """Map (N, *space, channels) to the same shape."""
        if x.ndim < 3:
            raise ValueError(
                "Filter response normalisation averages over space axes: it needs inputs with "
                f"axes (rows, space, channels), but their shape is {tuple(x.shape)}."
            )
        if not self.epsilon > 0:
            raise ValueError(f"The epsilon of the normalisation must be positive: {self.epsilon}.")
        ones, zeros = linen.initializers.ones_init(), linen.initializers.zeros_init()
        shape = (x.shape[-1],)
        gamma, beta = self.param("gamma", ones, shape), self.param("beta", zeros, shape)
        tau = self.param("tau", zeros, shape) if self.threshold else None
        x, gamma, beta, tau = promote_dtype(x, gamma, beta, tau)
        mean_square = jnp.mean(jnp.square(x), axis=tuple(range(1, x.ndim - 1)), keepdims=True)
        y = gamma * (x * lax.rsqrt(mean_square + self.epsilon)) + beta
        return y if tau is None else jnp.maximum(y, tau)
