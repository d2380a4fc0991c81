"""Quantile regression by a pseudo-likelihood: the asymmetric Laplace density of each level."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import jax.numpy as jnp
import numpyro.distributions as dist

from bayesnn_ppl.likelihoods.common.base import Likelihood
from bayesnn_ppl.likelihoods.common.interpolated_quantiles import InterpolatedQuantiles
from bayesnn_ppl.likelihoods.common.parameters import fixed_or_learned, sampled
from bayesnn_ppl.likelihoods.common.pseudo import PseudoLikelihood


class AsymmetricLaplacePseudoLikelihood(PseudoLikelihood):
    """Trains by Σ_l log AL(y; f_l, s_l, τ_l); predicts by the quantiles, interpolated.

    Args:
        quantiles: f, shape (B, L).
        levels: τ, shape (L,).
        scale: s, shape (L,).
    """

    pytree_data_fields = ("quantiles", "levels", "scale")

    def __init__(self, quantiles: Any, levels: Any, scale: Any) -> None:
        self.quantiles, self.levels, self.scale = quantiles, levels, scale
        below, above = scale[0] / (1 - levels[0]), scale[-1] / levels[-1]
        super().__init__(InterpolatedQuantiles(quantiles, levels, below, above))

    def log_prob(self, value: Any) -> Any:
        """Σ_l log [τ_l (1 − τ_l) / s_l] − ρ_l((y − f_l)/s_l), ρ_l(u) = max(τ_l u, (τ_l − 1) u)."""
        residual = (jnp.expand_dims(value, -1) - self.quantiles) / self.scale
        loss = jnp.maximum(self.levels * residual, (self.levels - 1) * residual)
        return (jnp.log(self.levels * (1 - self.levels) / self.scale) - loss).sum(-1)


@dataclass(frozen=True)
class QuantilePseudoLikelihood(Likelihood):
    """One output for each level; made by `likelihoods.quantile`."""

    levels: tuple[float, ...]
    scale: float | dist.Distribution
    outputs: int | None
    task = "regression"

    def sample_parameters(self) -> dict[str, Any]:
        """Sample the site `noise_scale`, one for each level, unless the scale is fixed."""
        scale = sampled("noise_scale", self.scale, count=len(self.levels))
        return {"scale": jnp.broadcast_to(scale, (len(self.levels),))}

    def distribution(self, outputs: Any, **parameters: Any) -> dist.Distribution:
        """The pseudo-likelihood of a number y with the outputs as its quantiles."""
        self.check_outputs(outputs)
        if outputs.ndim != 2:
            raise ValueError(
                f"The {type(self).__name__} has one target per row, so the network must return "
                f"shape (rows, {self.outputs}), not {tuple(outputs.shape)}."
            )
        levels = jnp.asarray(self.levels)
        return AsymmetricLaplacePseudoLikelihood(outputs, levels, parameters["scale"])


def quantile_pseudo_likelihood(
    levels: float | Sequence[float] = (0.05, 0.5, 0.95),
    *,
    scale: float | dist.Distribution | None = None,
) -> QuantilePseudoLikelihood:
    """Quantile regression: output l of the network is the τ_l-quantile of y. A pseudo-likelihood.

    The weights are drawn by ∏_l AL(y; f_l(x), s_l, τ_l), the asymmetric Laplace densities
    τ(1 − τ)/s · exp(−ρ_τ((y − f)/s)), ρ_τ(u) = u (τ − 1[u < 0]). Their maximum is that of the
    quantile loss, but y is not believed to be distributed so: each level counts the data once
    more, and **the spread of the posterior is not calibrated** (Yang et al.). The provenance of
    a run says `AsymmetricLaplacePseudoLikelihood`.

    Predictions and scores are those of the distribution whose τ_l-quantiles are the outputs
    (sorted, where they cross), with straight lines between them and the exponential tails of the
    outermost levels beyond. With a single level that is the asymmetric Laplace density itself.

    Args:
        levels: τ, increasing numbers inside (0, 1), or a single one. The network returns
            (N, number of levels), and y has shape (N,).
        scale: s, in the units of `y`: a number fixes it for all levels; a distribution over the
            positive reals is the prior of each level's. By default learned with a HalfNormal(1)
            prior, as the site `noise_scale`, shape (number of levels,).

    Raises:
        TypeError: levels or scale that are not numbers.
        ValueError: levels outside (0, 1) or not increasing, or a scale as `likelihoods.gaussian`.

    References:
        Yu and Moyeed (2001), Bayesian quantile regression, Statistics & Probability Letters
        54(4). Yang, Wang and He (2016), Posterior inference in Bayesian quantile regression with
        asymmetric Laplace likelihood, International Statistical Review 84(3).
    """
    given = [levels] if isinstance(levels, int | float) else levels
    try:
        numbers = tuple(float(level) for level in given)
    except (TypeError, ValueError):
        raise TypeError(
            f"The levels must be numbers inside (0, 1), such as (0.05, 0.5, 0.95), not {levels!r}."
        ) from None
    inside = all(0 < level < 1 for level in numbers)
    if not numbers or not inside or any(low >= high for low, high in pairwise(numbers)):
        raise ValueError(
            "The levels must lie inside (0, 1), each greater than the one before, not "
            f"{list(numbers)}: write 0.95 for 95 %."
        )
    scale = fixed_or_learned(dist.HalfNormal(1.0) if scale is None else scale, "The noise scale")
    return QuantilePseudoLikelihood(numbers, scale, len(numbers))
