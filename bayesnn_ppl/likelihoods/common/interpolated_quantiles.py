"""The distribution that a few quantiles say, with straight lines between them."""

from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from numpyro.distributions import constraints


class InterpolatedQuantiles(dist.Distribution):
    """F(v_l) = τ_l, linear in between; exponential tails outside.

    F(v) = τ_1 exp((v − v_1)/b) below v_1 and 1 − (1 − τ_L) exp(−(v − v_L)/c) above v_L. With one
    level τ, b = s/(1 − τ) and c = s/τ it is the asymmetric Laplace distribution of scale s.

    Args:
        quantiles: shape (B, L), sorted here, so that those that cross have an order.
        levels: τ, increasing inside (0, 1), shape (L,).
        below, above: b and c, the means of the tails, shape ().
    """

    arg_constraints: dict[str, Any] = {}
    support = constraints.real
    pytree_data_fields = ("quantiles", "levels", "below", "above")

    def __init__(self, quantiles: Any, levels: Any, below: Any, above: Any) -> None:
        self.quantiles = jnp.sort(quantiles, axis=-1)
        self.levels, self.below, self.above = levels, below, above
        super().__init__(jnp.shape(quantiles)[:-1])

    def _pieces(self) -> Any:
        """Lowest, highest, widths between, and the probabilities of the pieces between."""
        v = self.quantiles
        return v[..., 0], v[..., -1], jnp.diff(v), jnp.diff(self.levels)

    def _ends(self) -> Any:
        """Probabilities below the lowest and above the highest quantile."""
        return self.levels[..., 0], 1 - self.levels[..., -1]

    def cdf(self, value: Any) -> Any:
        """F, shape of `value` and the batch together."""
        (first, last, widths, between), (low, high) = self._pieces(), self._ends()
        into = (jnp.expand_dims(value, -1) - self.quantiles[..., :-1]) / _positive(widths)
        return (
            low * jnp.exp(jnp.minimum(value - first, 0) / self.below)
            + (between * jnp.clip(into, 0, 1)).sum(-1)
            - high * jnp.expm1(-jnp.maximum(value - last, 0) / self.above)
        )

    def icdf(self, q: Any) -> Any:
        """The inverse of F."""
        (first, _, widths, between), (low, high) = self._pieces(), self._ends()
        into = (jnp.expand_dims(q, -1) - self.levels[..., :-1]) / between
        return (
            first
            + self.below * jnp.log(jnp.minimum(q, low) / low)
            + (widths * jnp.clip(into, 0, 1)).sum(-1)
            - self.above * jnp.log(jnp.minimum((1 - q) / high, 1))
        )

    def log_prob(self, value: Any) -> Any:
        """log F', shape of `value` and the batch together."""
        (first, last, widths, between), (low, high) = self._pieces(), self._ends()
        value = jnp.broadcast_to(value, jnp.broadcast_shapes(jnp.shape(value), self.batch_shape))
        inside = jnp.log(between) - jnp.log(_positive(widths))
        pieces = [
            jnp.log(low / self.below) + jnp.minimum(value - first, 0)[..., None] / self.below,
            jnp.broadcast_to(inside, (*value.shape, inside.shape[-1])),
            jnp.log(high / self.above) - jnp.maximum(value - last, 0)[..., None] / self.above,
        ]
        piece = (value[..., None] > self.quantiles).sum(-1, keepdims=True)
        return jnp.take_along_axis(jnp.concatenate(pieces, -1), piece, -1)[..., 0]

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
        """F⁻¹ of uniform numbers."""
        smallest = jnp.finfo(jnp.result_type(float)).tiny
        return self.icdf(jax.random.uniform(key, self.shape(sample_shape), minval=smallest))

    @property
    def mean(self) -> Any:
        """Probability by probability, piece by piece."""
        weights, means, _ = self._moments()
        return (weights * means).sum(-1)

    @property
    def variance(self) -> Any:
        """Within the pieces and between them."""
        weights, means, variances = self._moments()
        centre = (weights * means).sum(-1, keepdims=True)
        return (weights * (variances + (means - centre) ** 2)).sum(-1)

    def _moments(self) -> Any:
        (first, last, widths, between), (low, high) = self._pieces(), self._ends()
        weights = jnp.concatenate([low[None], between, high[None]])
        middles = (self.quantiles[..., 1:] + self.quantiles[..., :-1]) / 2
        means = [(first - self.below)[..., None], middles, (last + self.above)[..., None]]
        outside = [jnp.broadcast_to(b**2, (*first.shape, 1)) for b in (self.below, self.above)]
        variances = [outside[0], widths**2 / 12, outside[1]]
        return weights, jnp.concatenate(means, -1), jnp.concatenate(variances, -1)


def _positive(widths: Any) -> Any:
    """Quantiles that coincide leave a step, which single precision cannot divide by."""
    return jnp.maximum(widths, jnp.finfo(widths.dtype).tiny)
