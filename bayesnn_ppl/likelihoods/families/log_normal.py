"""Log-normal noise: positive targets with a heavy right tail."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpyro.distributions as dist

from bayesnn_ppl.core.arguments import strict_switches
from bayesnn_ppl.likelihoods.common.location_scale import LocationScale
from bayesnn_ppl.likelihoods.common.parameters import checked_scale


@dataclass(frozen=True)
class LogNormal(LocationScale):
    """log y ~ N(f(x), scale²); made by `likelihoods.log_normal`."""

    def noise(self, centre: Any, **parameters: Any) -> dist.Distribution:
        """Log-normal around the centre, the logarithm of its median."""
        return dist.LogNormal(centre, parameters["scale"])


@strict_switches
def log_normal_likelihood(
    scale: float | Sequence[float] | dist.Distribution | None = None,
    *,
    outputs: int | None = 1,
    per_output: bool = False,
) -> LogNormal:
    """log y ~ N(f(x), σ²), p(y) = exp(−(log y − f(x))²/2σ²) / (√(2π) σ y), for y > 0.

    For prices, incomes, durations and concentrations, whose errors are factors: the median is
    exp f(x), the mean exp(f(x) + σ²/2), and the standard deviation is proportional to the mean.
    Predictions and densities are those of y itself, not of its logarithm. Load the data with
    `standardise="positive"`, which divides targets by their geometric mean, so that f is near 0.

    Args:
        scale: σ, the standard deviation of log y, without a unit; otherwise as in
            `likelihoods.gaussian`: by default learned with a HalfNormal(1) prior, as the site
            `noise_scale`.
        outputs, per_output: as in `likelihoods.gaussian`.

    Raises:
        TypeError, ValueError: as `likelihoods.gaussian`. Targets that are not positive are
            refused when the model meets the data.

    References:
        Aitchison and Brown (1957), The lognormal distribution, chapter 2.
    """
    scale, scales = checked_scale(scale, outputs, per_output=per_output)
    return LogNormal(scale, outputs, scales)
