"""What noise of a location and a scale has in common."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpyro.distributions as dist

from bayesnn_ppl.likelihoods.common.base import Likelihood, as_events
from bayesnn_ppl.likelihoods.common.parameters import Parameter, sampled


@dataclass(frozen=True)
class LocationScale(Likelihood):
    """y = f(x) + scale · noise; `scales` is how many scales are sampled, None for one of all."""

    scale: Parameter
    outputs: int | None = 1
    scales: int | None = None
    task = "regression"

    def sample_parameters(self) -> dict[str, Any]:
        """Sample the site `noise_scale`, unless the scale is fixed."""
        return {"scale": sampled("noise_scale", self.scale, count=self.scales)}

    def distribution(self, outputs: Any, **parameters: Any) -> dist.Distribution:
        """Noise around the outputs; a last axis of length 1 is dropped, others are events."""
        return as_events(self.noise(self.elements(outputs), **parameters))

    @abstractmethod
    def noise(self, centre: Any, **parameters: Any) -> dist.Distribution:
        """The distribution of each element around its centre."""
