"""One label out of K."""

from dataclasses import dataclass
from typing import Any

import numpyro.distributions as dist

from bayesnn_ppl.core.arguments import integer
from bayesnn_ppl.likelihoods.common.base import Likelihood, as_events


@dataclass(frozen=True)
class CategoricalLikelihood(Likelihood):
    """y ~ Categorical(softmax(f(x))); made by `likelihoods.categorical`."""

    outputs: int | None
    task = "classification"

    def distribution(self, outputs: Any, **parameters: Any) -> dist.Distribution:
        """Categorical with the outputs' last axis as logits."""
        self.check_outputs(outputs)
        return as_events(dist.Categorical(logits=outputs))


def categorical_likelihood(classes: int | None = None) -> CategoricalLikelihood:
    """y ~ Categorical(softmax(f(x))), labels 0 … classes − 1.

    Args:
        classes: K ≥ 2; the network returns (N, K), or (N, H, W, K) for a label per pixel.

    Raises:
        TypeError: `classes` is not given, or not an integer.
        ValueError: fewer than two classes.
    """
    if classes is None:
        raise TypeError(
            "`likelihoods.categorical` needs the number of classes: `categorical(3)`, or "
            "`categorical(data.classes)` of a `Dataset`."
        )
    return CategoricalLikelihood(integer(classes, "The number of classes", at_least=2))
