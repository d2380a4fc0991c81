"""Yes or no."""

from dataclasses import dataclass
from typing import Any

import numpyro.distributions as dist

from bayesnn_ppl.likelihoods.common.base import Likelihood, as_events


@dataclass(frozen=True)
class BernoulliLikelihood(Likelihood):
    """y ~ Bernoulli(sigmoid(f(x))); made by `likelihoods.bernoulli`."""

    outputs: int | None = 1
    task = "classification"

    def distribution(self, outputs: Any, **parameters: Any) -> dist.Distribution:
        """Bernoulli with the outputs as logits; a last axis of length 1 is dropped."""
        return as_events(dist.Bernoulli(logits=self.elements(outputs)))


def bernoulli_likelihood(*, outputs: int | None = 1) -> BernoulliLikelihood:
    """y ~ Bernoulli(sigmoid(f(x))), labels 0 and 1.

    Args:
        outputs: outputs per row: 1 for `y` of shape (N,), D for D labels a row, None to take the
            network's output as it is, for example a binary image (N, H, W).
    """
    return BernoulliLikelihood(outputs)
