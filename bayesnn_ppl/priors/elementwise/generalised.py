"""The generalised normal distribution, whose tails run from Laplace's and heavier to a box."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax.scipy.special import gammainc, gammaln
from numpyro.distributions import constraints
from numpyro.distributions.util import promote_shapes, validate_sample

from bayesnn_ppl.core.arguments import positive, strict_switches
from bayesnn_ppl.priors.common.scaling import ScaledPrior, checked_scales


class GeneralisedNormal(dist.Distribution):
    """Density p/(2·s·Γ(1/p)) · exp(-|w/s|^p).

    |w/s|^p ~ Gamma(1/p, 1), which is how it is drawn. p = 1 is Laplace(s), p = 2 is
    N(0, s²/2), p → ∞ is uniform on [-s, s].

    Args:
        power: p > 0.
        scale: s > 0.
    """

    arg_constraints = {"power": constraints.positive, "scale": constraints.positive}
    support = constraints.real
    reparametrized_params = ["scale"]

    def __init__(self, power: Any, scale: Any = 1.0, *, validate_args: bool | None = None) -> None:
        self.power, self.scale = promote_shapes(power, scale)
        shape = jnp.broadcast_shapes(jnp.shape(power), jnp.shape(scale))
        super().__init__(shape, validate_args=validate_args)

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
        """Draws of shape `sample_shape + batch_shape`."""
        shape = sample_shape + self.batch_shape
        size_key, sign_key = jax.random.split(key)
        size = jax.random.gamma(size_key, 1 / jnp.broadcast_to(self.power, shape))
        sign = jax.random.rademacher(sign_key, shape, dtype=size.dtype)
        return self.scale * sign * size ** (1 / jnp.asarray(self.power))

    @validate_sample
    def log_prob(self, value: Any) -> Any:
        """log p - log(2·s·Γ(1/p)) - |value/s|^p."""
        constant = jnp.log(self.power) - jnp.log(2 * self.scale) - gammaln(1 / self.power)
        return constant - jnp.abs(value / self.scale) ** self.power

    def cdf(self, value: Any) -> Any:
        """1/2 + sign(value)/2 · P(1/p, |value/s|^p), P the regularised incomplete gamma."""
        z = value / self.scale
        return 0.5 + 0.5 * jnp.sign(z) * gammainc(1 / self.power, jnp.abs(z) ** self.power)

    @property
    def mean(self) -> Any:
        """Zero."""
        return jnp.zeros(self.batch_shape)

    @property
    def variance(self) -> Any:
        """s²·Γ(3/p)/Γ(1/p)."""
        ratio = jnp.exp(gammaln(3 / self.power) - gammaln(1 / self.power))
        return jnp.broadcast_to(self.scale**2 * ratio, self.batch_shape)


@dataclass(frozen=True)
class _GeneralisedNormal(ScaledPrior):
    power: float

    def distribution(self, scale: float) -> dist.Distribution:
        return GeneralisedNormal(self.power, scale)


@strict_switches
def generalised_normal(
    power: float, scale: float = 1.0, *, bias_scale: float | None = None, fan_in: bool = False
) -> _GeneralisedNormal:
    """Density p/(2·s·Γ(1/p)) · exp(-|w/s|^p): Laplace at p = 1, normal with sd s/√2 at p = 2.

    Args:
        power: p > 0; below 1 the density has a cusp at zero, where its gradient is infinite.
        scale: s of parameters with two axes or more.
        bias_scale: s of the others; None for `scale`.
        fan_in: divide the scale of a kernel by √fan-in, as `fan_in_normal` does.

    Raises:
        TypeError, ValueError: a power or scale that is not a positive, finite number.

    References:
        Nadarajah (2005), A generalized normal distribution; Fortuin et al. (2022),
        arXiv:2102.06571.
    """
    power = positive(power, "The prior's power")
    if power < 0.1:
        raise ValueError(
            f"The prior's power must be at least 0.1, not {power}: below it the variance "
            "s²·Γ(3/p)/Γ(1/p) is beyond single precision."
        )
    return _GeneralisedNormal(*checked_scales(scale, bias_scale), fan_in, power)
