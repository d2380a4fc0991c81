"""Gaussian noise, its scale fixed or learned, for all outputs or for each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpyro.distributions as dist

from bayesnn_ppl.core.arguments import strict_switches
from bayesnn_ppl.likelihoods.common.location_scale import LocationScale
from bayesnn_ppl.likelihoods.common.parameters import checked_scale


@dataclass(frozen=True)
class Gaussian(LocationScale):
    """y ~ N(f(x), scale²); made by `likelihoods.gaussian`."""

    def noise(self, centre: Any, **parameters: Any) -> dist.Distribution:
        """Normal around the centre."""
        return dist.Normal(centre, parameters["scale"])


@strict_switches
def gaussian_likelihood(
    scale: float | Sequence[float] | dist.Distribution | None = None,
    *,
    outputs: int | None = 1,
    per_output: bool = False,
) -> Gaussian:
    """y ~ N(f(x), scale²), in the units that `y` has in the model (usually standardised).

    Args:
        scale: the noise's standard deviation: a number fixes it, a distribution over the
            positive reals is its prior. By default learned with a HalfNormal(1) prior, as the
            site `noise_scale`. D numbers fix it for each of D outputs.
        outputs: outputs per row: 1 for `y` of shape (N,) (the network returns (N, 1)); D for
            (N, D); None to take the network's output as it is, for example an image (N, H, W)
            with the same noise in every pixel.
        per_output: learn a scale for each of D outputs, independent under the one prior: the
            site `noise_scale` has shape (D,).

    Raises:
        TypeError: a scale that is neither a number nor a distribution.
        ValueError: a fixed scale that is not positive and finite, a prior that is not over the
            positive reals, or scales that do not fit the outputs.
    """
    scale, scales = checked_scale(scale, outputs, per_output=per_output)
    return Gaussian(scale, outputs, scales)
