"""Laplace noise: absolute errors in place of squared ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpyro.distributions as dist

from bayesnn_ppl.core.arguments import strict_switches
from bayesnn_ppl.likelihoods.common.location_scale import LocationScale
from bayesnn_ppl.likelihoods.common.parameters import checked_scale


@dataclass(frozen=True)
class Laplace(LocationScale):
    """y ~ Laplace(f(x), scale); made by `likelihoods.laplace`."""

    def noise(self, centre: Any, **parameters: Any) -> dist.Distribution:
        """Laplace around the centre."""
        return dist.Laplace(centre, parameters["scale"])


@strict_switches
def laplace_likelihood(
    scale: float | Sequence[float] | dist.Distribution | None = None,
    *,
    outputs: int | None = 1,
    per_output: bool = False,
) -> Laplace:
    """y ~ Laplace(f(x), b), density exp(−|y − f(x)|/b) / 2b: f(x) is the median.

    An outlier pulls with the force 1/b however far it lies; under `gaussian` the force grows
    with the distance, under `student_t` it vanishes.

    Args:
        scale: b, in the units of `y`; the standard deviation of the noise is √2·b. Otherwise as
            in `likelihoods.gaussian`: by default learned with a HalfNormal(1) prior, as the site
            `noise_scale`.
        outputs, per_output: as in `likelihoods.gaussian`.

    Raises:
        TypeError, ValueError: as `likelihoods.gaussian`.

    References:
        Koenker and Bassett (1978), Regression quantiles, Econometrica 46(1), for the median.
    """
    scale, scales = checked_scale(scale, outputs, per_output=per_output)
    return Laplace(scale, outputs, scales)
