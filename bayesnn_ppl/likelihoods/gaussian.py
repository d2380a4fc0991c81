"""Gaussian noise of one scale, fixed or learned."""

from dataclasses import dataclass
from typing import Any

import numpyro
import numpyro.distributions as dist

from bayesnn_ppl.arguments import positive
from bayesnn_ppl.likelihoods.base import Likelihood, as_events

__all__ = ["Gaussian", "gaussian_likelihood"]


@dataclass(frozen=True)
class Gaussian(Likelihood):
    """y ~ N(f(x), scale²); made by `likelihoods.gaussian`."""

    scale: float | dist.Distribution
    outputs: int | None = 1
    task = "regression"

    def sample_parameters(self) -> dict[str, Any]:
        """Sample the site `noise_scale`, unless the scale is fixed."""
        if isinstance(self.scale, dist.Distribution):
            return {"scale": numpyro.sample("noise_scale", self.scale)}
        return {"scale": self.scale}

    def distribution(self, outputs: Any, **parameters: Any) -> dist.Distribution:
        """Normal around the outputs; a last axis of length 1 is dropped, others are events."""
        self.check_outputs(outputs)
        if self.outputs == 1:
            outputs = outputs[..., 0]
        return as_events(dist.Normal(outputs, parameters["scale"]))


def gaussian_likelihood(
    scale: float | dist.Distribution | None = None, *, outputs: int | None = 1
) -> Gaussian:
    """y ~ N(f(x), scale²), in the units that `y` has in the program (usually standardised).

    Args:
        scale: the noise's standard deviation: a number fixes it, a distribution over the
            positive reals is its prior. By default learned with a HalfNormal(1) prior, as the
            site `noise_scale`.
        outputs: outputs per row: 1 for `y` of shape (N,) (the network returns (N, 1)); D for
            (N, D); None to take the network's output as it is, for example an image (N, H, W)
            with the same noise in every pixel.

    Raises:
        ValueError: a fixed scale that is not positive and finite.
    """
    if scale is None:
        scale = dist.HalfNormal(1.0)
    elif not isinstance(scale, dist.Distribution):
        scale = positive(scale, "The noise scale")
    return Gaussian(scale, outputs)
